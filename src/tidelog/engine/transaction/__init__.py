"""One update in work: its task for each component, who observes it, and all or nothing.

Knows: compiled rules, propagation, marks. Must not know: which algorithm maintains a component.
"""
