"""Tables that a benchmark shows beside those of its paper."""
