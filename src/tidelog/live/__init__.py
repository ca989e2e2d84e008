"""Updates that keep coming: streams that look ahead, and the fully dynamic mode.

Knows: updates in work and updates that wait. Must not know: how a component is maintained.
"""
