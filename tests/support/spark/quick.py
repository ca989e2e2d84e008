"""Settings of Spark for a handful of rows: what takes long there is starting, planning and compiling, not the work."""

from __future__ import annotations

from class_archive import java_options

QUICK = {
    "spark.driver.extraJavaOptions": java_options(),
    "spark.executor.extraJavaOptions": java_options(),
    "spark.sql.shuffle.partitions": "2",
    # Compiling a plan takes longer than interpreting it on a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
