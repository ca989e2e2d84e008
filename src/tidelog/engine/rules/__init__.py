"""Rules as the algorithms take them: compiled to plans, and counted as the policy says.

Knows: plans, relations, counters. Must not know: updates.
"""
