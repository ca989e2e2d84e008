"""One file a benchmark: what it runs, and the tables and checks that it yields."""
