"""JSON by a native parser, which reads many records at once: ``parsing`` says of which it is not certain.

``layers`` takes away what surrounds the fields of records: a schema that each carries, and texts that hold JSON.
"""
