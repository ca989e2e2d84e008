"""Rules as people write them, and the plain rules that they stand for: alternatives, conditions, windows, parts."""
