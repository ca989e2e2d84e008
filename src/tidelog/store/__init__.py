"""Terms, relations, indexes and the kernels over them."""
