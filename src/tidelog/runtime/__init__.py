"""The process around a knowledge base: its lock, signals, and locks for those who read beside it.

Knows: threads, signals, forks. Must not know: facts and rules.
"""
