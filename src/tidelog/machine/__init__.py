"""What kernels share: registers, vocabularies, memory, compilation, and the kernels below all others.

Kernels import a vocabulary under one letter: `M` registers, `F` flags, `R` and `X` fields of relations and indexes,
`P` words of plans, `K` kinds of terms, `W` kinds of work. Knows: memory and records. Must not know: rules, updates.
"""
