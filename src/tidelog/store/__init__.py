"""The facts of a knowledge base in flat arrays: terms, relations with their tables and indexes, and the plans.

Every array has one owner, which writes its address to where kernels read it. Knows: records, terms, plans. Must not
know: which rules there are, how an update goes.
"""
