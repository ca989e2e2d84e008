"""The algorithms: materialisation and maintenance."""
