"""Closures as data structures: relations that follow from base edges and are never stored pair by pair.

A `Closure` takes changes of base edges and answers for all pairs; its `SymmetricGraph` or `DirectedGraph` says which
pairs follow. `read_kernels` reads them inside compiled joins. Knows: nodes, edges, components and reachability. Must
not know: rules, relations, updates.
"""
