"""The data pipeline: sources to records, facts, a materialisation, and published versions.

Knows: configurations, sources and versions. Must not know: how rules are evaluated.
"""
