"""The data pipeline and the distributed engine on Spark DataFrames."""
