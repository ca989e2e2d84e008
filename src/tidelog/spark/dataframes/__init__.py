"""DataFrames in, DataFrames out: `derive` for Python, the table function `datalog` for SQL.

Knows: programs, frames and their types. Must not know: versions, updates, files of facts.
"""
