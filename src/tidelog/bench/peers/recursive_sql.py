"""A recursive query on Spark: `WITH RECURSIVE`, as Spark has it from version 4.1 on.

Spark's recursion is UNION ALL. A step that is DISTINCT ends where a level adds nothing, which on data without cycles is
where paths end; duplicates between levels go in the end. Limits of rows and levels are lifted, without which the query
would stop half way.
"""

from __future__ import annotations

import time

from tidelog.bench.data.cases import Tables
from tidelog.bench.measure import Measured, tree_cpu, tree_peak

_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.cteRecursionRowLimit": "-1",
    "spark.ui.enabled": "false",
}


def in_spark(query: str) -> str:
    """A recursive query with UNION, as DuckDB takes it, for Spark."""
    head, _, rest = query.partition(" AS (")
    body, _, count = rest.rpartition("FROM ")
    body = body.replace("UNION SELECT", "UNION ALL SELECT DISTINCT")
    return f"{head} MAX RECURSION LEVEL 10000 AS ({body}FROM (SELECT DISTINCT * FROM {count.strip()})"


def measured(query: str, tables: Tables) -> Measured:
    """The query once on little data, so that warming up is not measured, then on all of it; one core."""
    from tidelog.spark.session import open_session

    spark = open_session("local[1]", _SETTINGS)
    text = in_spark(query)
    try:
        for share in (100, 1):
            for name, rows in tables.items():
                spark.createDataFrame(rows.slice(0, max(1, len(rows) // share))).createOrReplaceTempView(name)
            wall, cpu = time.perf_counter(), tree_cpu()
            count = int(spark.sql(text).first()[0])
        return Measured(tree_cpu() - cpu, time.perf_counter() - wall, tree_peak(), count)
    finally:
        spark.stop()
