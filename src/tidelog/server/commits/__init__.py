"""What is on the disk: the store, the one writer, the history of its commits, and the keys of requests."""
