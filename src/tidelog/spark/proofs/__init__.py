"""Why a stored fact holds, and why one does not: by lookups in the files of a version, without a Spark job.

Knows: rules, plans, facts as tuples of ids. Must not know: DataFrames, jobs, updates.
"""
