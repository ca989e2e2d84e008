"""Pictures of the hyper rule dependency graph: Graphviz, Mermaid and SVG.

Knows: rule graphs, boxes and arrows. Must not know: facts.
"""
