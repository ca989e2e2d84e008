"""Materialisation on Spark: components in waves, each by rounds, by a closure, or inside one task.

Knows components and their frames. Must not know updates, versions or streams.
"""
