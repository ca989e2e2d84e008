"""The maintenance algorithms, one file each: `insertion`, `delete_rederive`, `counting`, `backward_forward`, `ranks`,
and `aggregates` beside them all. `maintenance` gives a component to its algorithm; `auto` decides by what it costs.

Knows: components, their deltas, the phases of the papers. Must not know: files, values, streams.
"""
