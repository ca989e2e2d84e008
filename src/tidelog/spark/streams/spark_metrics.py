"""Metrics of a stream for Spark's own listeners and its web pages.

What Spark itself moves is observed on the way: it is part of the progress of each batch, under `observedMetrics`, which
every `StreamingQueryListener` gets. What a batch came to is known on the driver later. If the session has web pages, it
becomes a query of its own there: one row, whose description and observed metrics say it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidelog.spark.session import is_connect
from tidelog.spark.streams.metrics import Totals

NAME = "tidelog"


def observe_records(records: DataFrame) -> DataFrame:
    """The same records, which are counted when a batch of them is read."""
    size = F.coalesce(F.sum(F.octet_length("body")), F.lit(0))
    return records.observe(NAME, F.count(F.lit(1)).alias("records"), size.alias("bytes"))


def observe_changes(rows: DataFrame) -> DataFrame:
    """The same output of the engine `keyed`, whose changes and refused records are counted."""
    tests = {"added": "op = 'added'", "removed": "op = 'removed'", "refused": "kind = 'refused'"}
    return rows.observe(NAME, *(F.count_if(F.expr(test)).alias(name) for name, test in tests.items()))


def has_pages(spark: SparkSession) -> bool:
    """Whether a session has web pages."""
    return spark.conf.get("spark.ui.enabled", "true") == "true"


def show_batch(spark: SparkSession, batch: int, outcome: Totals, latency: float) -> None:
    """Let the web pages and the listeners of queries show what a batch came to."""
    counts = {
        "batch": batch,
        "records": outcome.updates,
        "refused": outcome.refused,
        "added": outcome.added,
        "removed": outcome.removed,
        **{f"work_{kind.replace(' ', '_')}": count for kind, count in outcome.work.items()},
    }
    told = [F.max(F.lit(value)).alias(name) for name, value in {**counts, "seconds": latency}.items()]
    row = spark.range(1).observe(f"{NAME} batch", *told)
    if is_connect(spark):  # which knows no descriptions
        row.collect()
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(
        f"tidelog, batch {batch}: {outcome.updates:,} records, {outcome.added:,} facts came, {outcome.removed:,} went, "
        f"{outcome.refused:,} refused, {latency:.2f} s"
    )
    try:
        row.collect()
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


_DESCRIPTION = "spark.job.description"
