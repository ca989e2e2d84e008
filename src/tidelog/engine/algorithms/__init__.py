"""The maintenance algorithms, one file each: `insertion`, `delete_rederive`, `counting`, `backward_forward` (with
`provability`), `ranks`, `recomputation`. `choice` says which maintains what, `auto` and `policy` what that depends on.

Knows: components, their deltas, the phases of the papers. Must not know: files, values, streams.
"""
