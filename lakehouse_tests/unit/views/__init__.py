"""Views: what is refused, their columns and lineage, queries, and materialization."""
