"""Every component and command, tested in detail with a real broker, Spark and Delta."""
