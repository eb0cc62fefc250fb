"""The rules of a declaration. Each rule yields what is wrong and what to do; the first problem is raised.

``field_types`` checks that each part has the type that its field declares. ``table_rules`` calls all others:
``source_rules``, ``column_rules`` (with ``time_rules`` and ``written_rules``), ``format_rules``, ``delete_rules``,
``rows_rules`` and, for conditions and SQL, ``condition_rules``. The rules of a new class belong here.
"""
