"""Each invariant of docs/design.md, once, on a real broker, Spark and Delta, with one warm session."""
