"""Runs `python -m alcove`: the build installs this file as `alcove/__main__.py`, since `alcove` is a bare namespace."""

import sys

from alcove.platform.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
