"""Closures as data structures: relations that follow from base edges and are never stored pair by pair.

`SymmetricClosure` and `DirectedClosure` take changes of base edges and answer for all pairs; `read_kernels` reads them
inside compiled joins. Knows: nodes, edges, components and reachability. Must not know: rules, relations, updates.
"""
