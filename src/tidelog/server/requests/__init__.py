"""Requests as they come, and what is common to all answers: who asks, bodies, paths, headers, the description."""
