"""The inputs of the benchmarks: graphs, LUBM, SKOS, wind turbines, update streams."""
