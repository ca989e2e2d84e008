"""Rules and their plans as DataFrames, and the order in which components are evaluated.

Knows the plans of `program` and the dictionary. Must not know versions, files or streams.
"""
