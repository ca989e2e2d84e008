"""The data pipeline and the distributed engine on Spark DataFrames: read, encode, materialise, maintain, publish."""

from tidelog.extras import needing

with needing("tidelog.spark", "spark"):
    from tidelog.spark.dataframes.derived_frames import Derived, derive
    from tidelog.spark.dataframes.table_function import register
    from tidelog.spark.maintain.materialisation import Materialisation
    from tidelog.spark.materialise.spark_engine import SparkEngine
    from tidelog.spark.options import Options
    from tidelog.spark.pipeline.pipeline import Pipeline, Report
    from tidelog.spark.pipeline.pipeline_config import read_config
    from tidelog.spark.pipeline.publishing import Versions
    from tidelog.spark.session import open_session
    from tidelog.spark.stored.version_reader import SparkChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidelog.spark.streams.stream_run import StreamRun

__all__ = [
    "Derived",
    "Materialisation",
    "Options",
    "Pipeline",
    "Report",
    "SparkChange",
    "SparkEngine",
    "StreamRun",
    "Versions",
    "derive",
    "open_session",
    "read_config",
    "register",
]


def __getattr__(name: str) -> object:
    """Streams in memory bring the compiler along, so that they are loaded with their first use."""
    if name == "StreamRun":
        from tidelog.spark.streams.stream_run import StreamRun

        return StreamRun
    raise AttributeError(f"module 'tidelog.spark' has no attribute {name!r}")
