"""Runs the `alcove` command: `python -m alcove`."""

import sys

from alcove.platform.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
