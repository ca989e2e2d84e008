"""Small updates on Spark: the driver takes them through the program, and looks up the few facts that they need."""
