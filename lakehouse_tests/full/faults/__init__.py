"""Attacks on the promises of docs/explanation/reliability.md, counted."""
