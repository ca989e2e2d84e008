"""Columns of constants: from tables, rows and texts, of which types, in which order.

Knows: the kinds of constants, and how each is written. Must not know: files.
"""
