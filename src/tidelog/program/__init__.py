"""Rules as data: dependency graph, hyper-nodes, modules, plans."""
