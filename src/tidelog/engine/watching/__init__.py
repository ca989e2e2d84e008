"""Watched queries: how their answers change with each update, found from the change alone.

Knows: deltas, plans and match sets of a transaction. Must not know: who watches, and how they are told.
"""
