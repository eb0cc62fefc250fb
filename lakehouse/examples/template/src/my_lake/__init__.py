"""Kafka topics, merged into Delta tables."""
