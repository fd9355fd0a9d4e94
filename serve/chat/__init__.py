"""A chat with a running server in the terminal, with the standard library alone."""
