"""The fast path: ``plain_records`` decodes many records at once if they are certainly valid.

``plain_columns`` converts the values of one field, with ``plain_times`` for times, ``plain_numbers`` for numbers,
``plain_written`` for values that are not in JSON's own form, and ``plain_values`` for their types. ``plain_paths``
finds the values of a field, ``plain_texts`` reads values that are written as text. ``plain_layouts`` lists the forms of
times, ``plain_zones`` knows the offsets of time zones. ``unpacked_values`` decompresses values. ``unique_names`` finds
records in which the parser may have dropped one of two equal names.
"""
