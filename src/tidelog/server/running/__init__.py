"""A server as a process: its parts put together, its sockets, its log lines, its end."""
