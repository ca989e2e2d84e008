"""Settings of Spark for a handful of rows: what takes long there is starting, planning and compiling, not the work."""

from __future__ import annotations

from tidelog.spark.session import SHORT_JOB_JAVA_OPTIONS

QUICK = {
    "spark.driver.extraJavaOptions": SHORT_JOB_JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": SHORT_JOB_JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    # Compiling a plan takes longer than interpreting it on a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
