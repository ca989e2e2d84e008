"""Streams of events: those who subscribe, what they are told, and what each has yet to take."""
