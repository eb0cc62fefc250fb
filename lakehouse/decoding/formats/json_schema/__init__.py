"""JSON Schema: the check of each record by the schema that its id names.

``schemas`` prepares a registered schema, on the driver. ``documents`` resolves references, and ``compiler`` makes the
``checks`` of a schema: ``scalars`` are keywords about a value itself, ``containers`` those about what is in it.
``pattern_syntax`` reads regular expressions, and ``patterns`` matches them. ``parser`` parses and checks records.
"""
