"""Marks on facts that the next update of a stream will touch (Backward/Forward with Marking).

`marking` has the marks of an update; `copied_marks` has the kernel for marks through rules that copy facts.

Knows: marks and what they save. Must not know: where a stream comes from.
"""
