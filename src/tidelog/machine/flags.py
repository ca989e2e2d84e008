"""Flags of a fact, one bit each: membership in the sets of the algorithms. Kernels import it as `F`."""

from __future__ import annotations

EXPLICIT = 1  # E
IN = 2  # I: a rule body may use the fact now
OLD = 4  # in I when the update began; equals IN between updates
TOUCHED = 8  # the undo log holds the fact as it was
PENDING = 16  # derived, and waiting for its own insertion to be processed
CURRENT = 32  # in the batch that is being processed (N of DR2 and DR5)
DELETED = 64  # D: examined or overdeleted
PROCESSED = 128  # O: its consequences have been overdeleted
CHECKED = 256  # C
PROVED = 512  # P
AWAITED = 1024  # in C, and not yet proved when an instance needed it
DOUBTED = 2048  # lost an instance while its counter was full: see `machine.counters`
DISPROVED = 4096  # S
DRAFT = 4096  # of a best value, which nothing disproves: the hash table does not know of it yet
MARKED = 8192  # a mark: an update that is still to come deletes it or what it came from; see AHEAD
QUEUED = 16384  # in P and not yet in V: proved, and waiting to spread
SEEN = 32768  # a changed fact of a negated atom that was a pivot already
EXPECTED = 65536  # in D because an earlier update marked it

# Which updates a mark is for: a bit for the next update, and one for each of those after it.
MOST_AHEAD = 14
NEXT = 1 << 17
AHEAD = NEXT * ((1 << MOST_AHEAD) - 1)

PERSISTENT = EXPLICIT | IN | OLD | MARKED | AHEAD
