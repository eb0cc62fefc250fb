"""SQL in a declaration."""
