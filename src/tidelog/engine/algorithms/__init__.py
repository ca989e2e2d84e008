"""The maintenance algorithms, one file each, and the choice between them.

Knows: components, their deltas, the phases of the papers. Must not know: files, values, streams.
"""
