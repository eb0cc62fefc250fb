"""Deterministic sample records for the demo, the tests and benchmarks; the standard library only."""
