"""Attacks on the promises of docs/explanation/reliability.md; each attack is counted."""
