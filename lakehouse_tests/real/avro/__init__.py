"""Avro on a real broker with a real registry."""
