"""Each invariant of docs/design.md once on a real broker, Spark and Delta, on one warm session and shared histories."""
