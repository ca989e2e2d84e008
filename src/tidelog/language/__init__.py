"""Text to syntax tree and back: grammar, parser, printer, checks."""
