"""Rules as data: dependency graph, hyper-nodes and components, closure modules, normal forms, plans.

Knows: rules, and what depends on what among them. Must not know: facts, or how they are stored.
"""
