"""What programs declare of their data: columns, types and keys; and patterns of records."""
