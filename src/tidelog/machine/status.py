"""What a kernel returns: that it is done, or what Python has to do before it is called again."""

from __future__ import annotations

DONE = 0
MATCH = 1
PAUSED = 2  # the budget is spent: check limits and call again
FULL = 3  # relation M.FULL needs room for M.STAGED rows
FULL_LOG = 4
FULL_TERMS = 5
FULL_LIST = 6  # work list M.FULL must grow to M.STAGED entries
NEED_CALLS = 7  # Python functions have to be called
FULL_FRAMES = 8
NEED_COPIES = 9  # the rules that copy the facts of relation M.FULL have to be listed
NEED_TABLE = 10  # the hash table of relation M.FULL has to hold all facts
