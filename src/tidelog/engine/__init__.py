"""The engine: a program and its materialisation, maintained through updates.

Knows: rules as plans, components, deltas, undoing. An update goes down from `engine` through `agenda`, `maintenance`
and `algorithms` to `jobs` and the kernels of `propagation`, each step once for a component. Must not know: values,
texts, files, streams, threads that submit updates; who observes an update in work is known as an `Observer` only.
"""
