"""Updates of a knowledge base: one at a time, streams that look ahead, and the fully dynamic mode.

Knows: updates in work and updates that wait. Must not know: how a component is maintained.
"""
