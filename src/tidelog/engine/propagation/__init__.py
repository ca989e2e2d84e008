"""How changes spread through rules: rounds, batches, derived heads, and the fast forms of joins.

Knows: plans as words, relations as records. Must not know: which algorithm asks, and why.
"""
