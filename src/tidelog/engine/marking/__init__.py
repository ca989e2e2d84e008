"""Marks on facts that the next update of a stream will touch (Backward/Forward with Marking).

`marking` has the marks of an update, and `mark_kernels` its kernels; `copied_marks` has marks through rules that copy
facts.

Knows: marks and what they save. Must not know: where a stream comes from.
"""
