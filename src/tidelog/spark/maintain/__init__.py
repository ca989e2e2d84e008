"""Maintenance on Spark: an update of facts and rules against a materialisation that lies in Parquet."""
