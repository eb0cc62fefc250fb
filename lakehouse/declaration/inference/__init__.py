"""A declaration proposed from records: ``proposal``.

``proposed_changes`` proposes one for the changes of a database. ``record_fields`` finds the fields of records,
``proposed_columns`` the columns for them, and ``proposed_types`` the types of columns, ``opened_fields`` those that
hold JSON as text, ``proposed_times`` the units of times, ``proposed_key`` the key, ``proposed_kinds`` whether the topic
contains records of several types, ``chosen_records`` those of one type, ``cloud_events`` the attributes of events,
``key_columns`` the form of keys, ``schema_keys`` the fields of keys with a schema, ``proposed_forms`` texts that are
numbers, ``mixed_forms`` those of which some are numbers already, ``odd_values`` the few that hide what the others are,
``proposed_texts`` numbers in formats that have only texts, ``base64_texts`` bytes, ``open_telemetry`` logs and
attributes. ``readable_records`` reads the records, ``column_lines`` writes columns.
"""
