"""`python -m tidelog`: the command line, for an environment whose scripts are not on the path."""

from __future__ import annotations

import sys

from tidelog.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
