"""Each invariant of docs/invariants.md, once, on a real broker, Spark and Delta, with one warm session."""
