"""The papers' procedures, to the letter: slow, on plain sets, with every set kept and every step counted.

The engine's algorithms end in the same materialisation by other steps. Here each procedure runs as it is printed, over
the rule instances of one update, so that its sets and counts can be read and the engine can be held against them.
Knows rule instances and sets of facts; must not know how the engine stores or finds them.
"""
