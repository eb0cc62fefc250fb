"""A declaration proposed from records: ``proposal``.

``proposed_changes`` proposes one for the changes of a database. ``readable_records`` reads the records, and
``record_fields`` finds their fields. ``proposed_columns`` proposes the columns for them, ``proposed_types`` the types
of columns and the units of times, ``proposed_forms`` texts that are numbers, times or bytes, ``proposed_key`` the key,
``proposed_kinds`` whether the topic contains records of several types, ``chosen_records`` those of one type and the
headers of all, ``key_columns`` the form of keys, also of those with a schema. ``column_lines`` writes columns.
"""
