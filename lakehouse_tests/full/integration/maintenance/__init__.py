"""Maintenance: what it compacts, what it removes, and what others do meanwhile."""
