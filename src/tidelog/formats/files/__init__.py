"""Files of facts and updates: a file for each format, and folders that hold any of them.

Knows: bytes, lines, and how formats are read and written. Must not know: what is done with facts.
"""
