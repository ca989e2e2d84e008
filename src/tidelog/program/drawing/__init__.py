"""Pictures of the hyper rule dependency graph: Graphviz, Mermaid and SVG.

Knows: boxes and arrows. Must not know: facts.
"""
