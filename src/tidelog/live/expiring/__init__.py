"""Time that passes: what expires when, and how an update takes it along.

Knows: ages, windows, the time of a knowledge base. Must not know: how facts are derived.
"""
