"""The data pipeline and the distributed engine on Spark DataFrames: read, encode, materialise, maintain, publish."""

from tidelog.spark.engine import SparkEngine
from tidelog.spark.maintenance.change import SparkChange
from tidelog.spark.materialisation import Materialisation
from tidelog.spark.options import Options
from tidelog.spark.pipeline import Pipeline, Report
from tidelog.spark.session import open_session
from tidelog.spark.versions import Versions

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
