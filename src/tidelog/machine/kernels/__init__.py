"""Libraries of compiled kernels: where they come from, how they are loaded, and how they are built.

Nothing here loads Numba. Where kernels have to be compiled, processes of their own do that (`machine.compiler`).
"""
