"""What a new leaf model and a new family of trees take: one file each, and no change elsewhere.

The two toys beside this file are compiled against the package, as code of others would be.
"""

import importlib.util
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.streams import as_dicts, blobs

import streamtree
from streamtree._core.learners.classifier import Classifier
from streamtree._core.learners.explaining import find_ways
from streamtree._core.store.checks import StateError
from streamtree._core.stream.sources import DenseRows, SparseRows
from streamtree._core.trees.model import ModelTree

pytestmark = pytest.mark.slow

BUILD = """
import sys
from pathlib import Path
from Cython.Build import cythonize
from setuptools import Extension, setup

folder, package = Path(sys.argv[1]), sys.argv[2]
setup(
    name="toys",
    packages=[],
    ext_modules=cythonize(
        [Extension(path.stem, [str(path)], extra_compile_args=[] if sys.platform == "win32" else
         ["-O1", "-ffp-contract=off"], define_macros=[("CYTHON_WITHOUT_ASSERTIONS", None)])
         for path in folder.glob("*.pyx")],
        include_path=[package],
        compiler_directives={"language_level": 3, "cdivision": True},
    ),
    script_args=["-q", "build_ext", "--inplace", "--build-temp", str(folder / "build")],
)
"""


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """The two modules, compiled."""
    pytest.importorskip("Cython")
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("toys")
    for path in Path(__file__).parent.glob("*.pyx"):
        shutil.copy(path, folder)
    package = str(Path(streamtree.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder), package],
        cwd=folder, capture_output=True, text=True, check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = {}
    for path in folder.glob("*.pyx"):
        (built,) = [*folder.glob(f"{path.stem}.*.so"), *folder.glob(f"{path.stem}.*.pyd")]
        spec = importlib.util.spec_from_file_location(path.stem, built)
        found[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[path.stem])
    return found


def model_tree(toys, **settings):
    leaves = toys["counting"].CountingLeaves(**settings)
    return ModelTree(leaves, seed=0, grace_period=5.0, delta=0.3)


def stump(toys):
    return toys["stump"].StumpTree(2)


TREES = {"model": model_tree, "stump": stump}
trees = pytest.mark.parametrize("tree", TREES)


def stream(n=1500):
    X, y = blobs(n, classes=6, features=4, spread=3.0)
    X[::7, 1] = np.nan
    X[:, 3] *= np.arange(n) % 3 == 0
    return X, [f"class {label}" for label in y]


def by_rows(learner, X, y, w):
    """What is said of every row before it is learned."""
    said = []
    for x, label, weight in zip(as_dicts(X), y, w, strict=True):
        said.append((learner.predict_one(x), learner.predict_proba_one(x)))
        learner.learn_one(x, label, weight)
    return said


def source(X, form):
    if form == "dense":
        return DenseRows(X)
    csr = sp.csr_array(X)
    return SparseRows(
        csr.data, csr.indices.astype(np.int32), csr.indptr.astype(np.int64), X.shape[1]
    )


@trees
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_they_learn_and_predict_by_all_ways(toys, tree, form):
    X, y = stream()
    w = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=len(y))
    first = [int(np.flatnonzero(~np.isnan(X[w > 0][:, j]))[0]) for j in range(4)]
    loop = Classifier(TREES[tree](toys))
    said = by_rows(loop, X, y, w.tolist())
    assert loop.predict_one({}) in loop.labels.labels
    for says in (None, "labels", "shares"):
        batch = Classifier(TREES[tree](toys))
        found = batch.learn_many(source(X, form), [0, 1, 2, 3], first, y, w, says)
        assert pickle.dumps(batch.snapshot()) == pickle.dumps(loop.snapshot())
        if says == "labels":
            labels = [None if i < 0 else batch.labels.labels[i] for i in found.tolist()]
            assert labels == [label for label, _ in said]
        elif says == "shares":
            for row, (_, shares) in zip(found.tolist(), said, strict=True):
                named = dict(zip(batch.labels.labels, row, strict=True))
                assert named == {label: shares.get(label, 0.0) for label in named}
    many = loop.predict_many(source(X, form), [0, 1, 2, 3])
    one = [loop.predict_one(x) for x in as_dicts(X)]
    assert [loop.labels.labels[i] for i in many.tolist()] == one
    right = np.mean([a == b for a, b in zip(one, y, strict=True)])
    majority = max(map(y.count, y)) / len(y)
    # a model tree does not split where its models leave no residuals
    assert right > {"model": 0.9 * majority, "stump": 1.05 * majority}[tree]


@trees
def test_their_states_go_on_and_are_checked(toys, tree):
    X, y = stream()
    learner = Classifier(TREES[tree](toys))
    rows = as_dicts(X)
    for x, label in zip(rows[:700], y, strict=False):
        learner.learn_one(x, label, 1.0)
    state = pickle.loads(pickle.dumps(learner.snapshot()))
    again = Classifier(TREES[tree](toys))
    again.check_state(state)
    again.restore(state)
    assert pickle.dumps(again.snapshot()) == pickle.dumps(learner.snapshot())
    for x, label in zip(rows[700:], y[700:], strict=True):
        assert again.predict_proba_one(x) == learner.predict_proba_one(x)
        again.learn_one(x, label, 1.0)
        learner.learn_one(x, label, 1.0)
    assert pickle.dumps(again.snapshot()) == pickle.dumps(learner.snapshot())
    assert len(learner.depths()) == learner.tree.n_nodes
    assert find_ways(learner, rows[0])[-1][1] is None
    assert learner.__sizeof__() > 0
    broken = learner.snapshot()
    part = broken["tree"]["votes" if tree == "stump" else "leaves"]
    part = part if tree == "stump" else part["classes"]
    part["keys"][0] = 77
    with pytest.raises(StateError):
        learner.check_state(broken)


def test_leaves_may_have_room_for_few_classes(toys):
    """The toy only says that it has no room; the tree goes on without it."""
    X, y = stream(4000)
    learner = Classifier(model_tree(toys, max_classes=3))
    for x, label in zip(as_dicts(X), y, strict=True):
        learner.learn_one(x, label, 1.0)
    state = learner.snapshot()["tree"]
    counts = np.diff(state["leaves"]["classes"]["starts"])
    assert 0 < counts.max() <= 3
    assert state["classes"]["records"].sum() == 4000
