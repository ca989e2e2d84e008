"""Marks on facts that the next update of a stream will touch (Backward/Forward with Marking).

Knows: marks and what they save. Must not know: where a stream comes from.
"""
