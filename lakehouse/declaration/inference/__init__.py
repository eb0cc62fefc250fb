"""A declaration proposed from records: ``proposal``.

``proposed_changes`` proposes one for the changes of a database. ``readable_records`` reads and chooses records, and
``record_fields`` finds their fields. ``proposed_columns`` proposes the columns for them, ``proposed_types`` their types
and units of times, ``proposed_forms`` texts that are numbers, times or bytes, ``proposed_key`` the key, ``key_columns``
the form of keys, also of those with a schema. ``proposed_types`` writes columns.
"""
