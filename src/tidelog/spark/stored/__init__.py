"""A materialisation on disk: its versions, the layers of each predicate, and how to read them.

Knows: manifests, Parquet files, facts as frames and by key. Must not know: rules, or how an update is computed.
"""
