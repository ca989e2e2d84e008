"""One update in work: its jobs, its explicit facts, who observes it, and all or nothing.

Knows: compiled rules, propagation, marks. Must not know: which algorithm maintains a component.
"""
