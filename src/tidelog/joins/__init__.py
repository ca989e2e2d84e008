"""Plans as words, and the one executor that runs them.

Knows: plans, records, closures as relations. Must not know: what is done with a match.
"""
