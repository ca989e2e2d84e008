"""Small updates on Spark: one task takes them through the program, and looks up the few facts that they need."""
