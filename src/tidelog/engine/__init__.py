"""The engine: a program and its materialisation, maintained through updates.

Knows: rules as plans, components, deltas, and how to undo an update. An update goes down from `engine` through
`maintenance` and `algorithms` to `task`, `runner` and the kernels of `propagation`, once for each component.
Must not know: parsing, files, streams, Spark, or which threads submit updates; it sees only an `Observer` of the work.
"""
