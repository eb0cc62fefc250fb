"""Catalogs: what they have of a table after each change of it, and what they refuse."""
