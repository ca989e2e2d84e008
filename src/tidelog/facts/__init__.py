"""Facts at the border: Python values, tables and files on the way in, facts and changes on the way out.

Knows: values, rows of term numbers, the results that users hold. Must not know: how a program is maintained.
"""
