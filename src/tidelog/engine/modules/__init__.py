"""Closure modules in maintenance (Modular Materialisation): components that are closures, and cores of closures.

Knows: which components are closures, their bases, and what an update changes in their pairs. Must not know: how a
closure answers (`tidelog.closures`), algorithms for other components, streams, values, files.
"""
