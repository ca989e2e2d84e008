"""The front door: `KnowledgeBase`.

Knows: everything below, and hands each task to the folder that has it. Must not know: kernels.
"""
