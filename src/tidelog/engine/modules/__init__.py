"""Modules in maintenance (Modular Materialisation): closures and plug-ins, alone and inside a larger recursion.

Knows: which closures there are, their bases, and what an update changes in their pairs; which plug-ins there are, and
what they are given. Must not know: how a closure answers (`tidelog.closures`), algorithms for other components,
streams, files.
"""
