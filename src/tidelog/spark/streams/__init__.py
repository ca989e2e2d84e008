"""Streams in the pipeline: update records come by Structured Streaming, are applied, and changes go to a sink.

Knows records, batches, checkpoints and the three engines (`memory`, `spark`, `keyed`). Must not know how rules are
evaluated.
"""
