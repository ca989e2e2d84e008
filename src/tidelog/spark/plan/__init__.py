"""Rules and their plans as DataFrames.

Knows: the plans of `program`. Must not know: versions, files, streams.
"""
