"""Fields of the index table, one row for each index. Kernels import it as `X`."""

from __future__ import annotations

SLOTS = 0  # address of the hash table: the newest fact of each key
SLOT_COUNT = 1
USED = 2  # distinct keys
LINK = 3  # byte offset in a record of the link to the next fact with the same key
COLUMN_COUNT = 4
COLUMNS = 5  # address of the column numbers
RELATION = 6
FIELDS = 8
STRIDE = FIELDS * 8
