"""Fully Dynamic Materialization Maintenance, Algorithm 1: operations of different updates that meet fact by fact.

Knows: E, I, operations, ages, rule instances. Must not know: how the engine maintains its own materialisation.
"""
