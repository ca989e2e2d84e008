"""A knowledge base that a server has: `tidelog.connect(url)`, and the same for an event loop.

What is asked is data (`exchange`), which a connection sends and waits for, with or without an event loop.
"""
