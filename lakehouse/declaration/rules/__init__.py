"""What may not be declared. Each rule yields what is wrong and what to do; the first problem is raised.

``field_types`` asks whether each part is of the type that its field names. ``table_rules`` calls the others:
``column_rules`` (with ``time_rules``) and ``expression_rules`` for SQL. A rule for a new part of the vocabulary goes
here.
"""
