"""The maintenance algorithms, one file each: `insertion`, `delete_rederive`, `counting`, `backward_forward` (with
`provability`), `ranks`, `recomputation`, and `aggregates` beside them all. `choice` says which one maintains what,
`auto` what that depends on, and `maintenance` gives a component to its algorithm.

Knows: components, their deltas, the phases of the papers. Must not know: files, values, streams.
"""
