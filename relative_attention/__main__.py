"""Runs the command line: `python -m relative_attention`."""

import sys

from relative_attention.cli import main

if __name__ == "__main__":
    sys.exit(main())
