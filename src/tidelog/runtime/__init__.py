"""Threads and signals: the lock of a knowledge base, signals that wait until they can be handled, who reads meanwhile.

Knows: threads, signals, forked children. Must not know: facts, rules, engines.
"""
