"""The command line: `streamtree-learn`, or `python -m streamtree`."""

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from streamtree.cli import commands
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("streamtree"):
            raise
        sys.exit(
            f"streamtree-learn: the command line needs {error.name}: "
            'pip install "streamtree-learn[cli]"'
        )
    commands(prog_name="streamtree-learn")


if __name__ == "__main__":
    main()
