"""The format JSON.

``format`` is the format, and ``schemas`` reads a JSON Schema for a proposal.
"""
