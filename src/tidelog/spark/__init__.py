"""The data pipeline and the distributed engine on Spark DataFrames: read, encode, materialise, maintain, publish."""

from tidelog.spark.maintain.materialisation import Materialisation
from tidelog.spark.materialise.spark_engine import SparkEngine
from tidelog.spark.options import Options
from tidelog.spark.pipeline.pipeline import Pipeline, Report
from tidelog.spark.pipeline.versions import Versions
from tidelog.spark.session import open_session
from tidelog.spark.stored.spark_change import SparkChange

__all__ = [
    "Materialisation",
    "Options",
    "Pipeline",
    "Report",
    "SparkChange",
    "SparkEngine",
    "Versions",
    "open_session",
]
