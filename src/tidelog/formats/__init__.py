"""Facts and update streams in and out of files."""
