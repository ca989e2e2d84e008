"""Small updates: the driver takes them through the components, and looks up the few facts that they need in files.

Knows: rules, plans, facts as tuples of ids. Must not know: DataFrames, jobs, or what else an update may go through.
"""
