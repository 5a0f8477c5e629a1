"""Without Ray the import says what to install; the package itself does without."""

import subprocess
import sys


def test_what_to_install():
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "import streamtree\n"
        "try:\n    import streamtree.distributed\n"
        "except ImportError as error:\n    print(error, error.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'streamtree-learn[ray]' ray" in done.stdout
    assert done.stderr == ""


def test_ray_is_no_part_of_the_package():
    program = "import sys, streamtree; print('ray' in sys.modules, 'sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False\n"
