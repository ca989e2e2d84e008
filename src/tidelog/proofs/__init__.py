"""What every engine says about facts: proofs, and what a fact that does not hold lacks.

Knows: rules, plans, values. Must not know: where facts lie, and how matches of rules are found.
"""
