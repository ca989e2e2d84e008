"""How changes spread through rules. `propagate` runs plans, in jobs and in rounds, and `derived_heads`
acts on what they derive; `match_sets` says which facts take part. The rest are fast forms of common joins.

Knows: plans as words, relations as records. Must not know: which algorithm asks, and why.
"""
