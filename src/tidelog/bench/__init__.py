"""The tables of the papers, measured here, and the peers."""
