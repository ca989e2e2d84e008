"""The data pipeline: its configuration, a run from sources to a published version, and `tidelog run` on Spark.

Knows configurations and published versions. Must not know how rules are evaluated, or how streams run.
"""
