"""Other engines on the same input."""
