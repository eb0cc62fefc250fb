"""Attacks on the promises of docs/reliability.md, counted."""
