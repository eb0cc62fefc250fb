"""The rules of a declaration. Each rule yields what is wrong and what to do; the first problem is raised.

``field_types`` checks that each part has the type that its field declares. ``table_rules`` calls all others:
``column_rules`` (with ``time_rules`` and ``written_rules``), ``key_rules``, ``format_rules``, ``upkeep_rules``,
``delete_rules``, ``rows_rules``, ``topic_rules``, ``source_rules``, ``reject_rules`` and, for SQL,
``expression_rules``. The rules of a new class belong here.
"""
