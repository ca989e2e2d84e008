"""What every update needs, whatever maintains it: running kernels, undoing, deltas, and rows that are read late.

Knows: the store, limits, what changed so far. Must not know: algorithms, streams.
"""
