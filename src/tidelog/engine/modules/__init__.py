"""Closure modules in maintenance (Modular Materialisation): which components are closures, and what changes in them.

Knows: closures, their bases and their deltas. Must not know: streams, values, files.
"""
