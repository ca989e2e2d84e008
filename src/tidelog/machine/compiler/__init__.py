"""Numba and LLVM, which turn kernels into object code. Only the processes that `machine.kernels` starts load them.

What lies here is part of the stamp of compiled kernels: an edit compiles all of them again.
"""
