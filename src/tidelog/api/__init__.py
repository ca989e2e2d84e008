"""The front door: `KnowledgeBase`.

Knows: everything below, and hands each task to the folder that does it. Must not know: kernels.
"""
