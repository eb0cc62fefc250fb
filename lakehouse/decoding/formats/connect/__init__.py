"""The format of Kafka Connect: JSON that brings its schema.

``format`` is the format, and ``schemas`` reads the schema of a record.
"""
