"""JSON Schema: the check of each record by the schema that its id names, with the library ``jsonschema-rs``.

``schemas`` prepares a registered schema and makes its validator: ``documents`` writes it as the library reads it,
``patterns`` translates its regular expressions, and ``costs`` bounds what its checks may cost. ``parser`` parses
records, and ``checks`` explains what violates a schema.
"""
