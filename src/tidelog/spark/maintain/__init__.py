"""Maintenance on Spark: updates of facts and rules against a materialisation in Parquet, version by version.

Knows: the order of components, and the ways to settle each: by lookups, in one task, or by sets. Must not know: where
updates come from.
"""
