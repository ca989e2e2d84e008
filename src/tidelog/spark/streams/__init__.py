"""Streams in the pipeline: update records through Structured Streaming into a materialisation, changes into a sink."""
