"""Facts on Spark: their sources, records, the dictionary, rows of ids in Parquet, files of decoded facts.

Knows frames and files. Must not know rules, plans, versions or streams.
"""
