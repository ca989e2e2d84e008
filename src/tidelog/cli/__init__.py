"""The command line and the shell.

Knows: arguments, exit codes, terminals. Must not know: how anything is evaluated.
"""

from tidelog.cli.command_line import main

__all__ = ["main"]
