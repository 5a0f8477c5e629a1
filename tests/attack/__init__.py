"""Attacks on all public estimators: whatever comes in, a model stays whole and its numbers finite.

Every attack is a function `run(n, seed, only)` of a module here; `test_attack.py` runs a few of
each in the suite, all of them with `-m attack`. By hand, from the folder of the project:

    PYTHONPATH=tests python -m attack streams 2000 --seed 7 --only SoftTreeClassifier

prints the seed of what fails, with which `--seed` and n = 1 repeat it (but for `malformed`, whose
model goes on). Under sanitizers, in a copy of the project:

    STREAMTREE_SANITIZE=address,undefined python setup.py build_ext --inplace
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \\
        ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=.:tests python -m attack streams 2000
"""
