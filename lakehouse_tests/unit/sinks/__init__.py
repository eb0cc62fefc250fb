"""Sinks: what arrives in a database, what is refused, what a failure leaves, and what maintenance waits for."""
