"""The fast path: many records are decoded at once if they are certainly valid.

``plain_records`` decodes records that are rows, and ``plain_elements`` those with many rows, whose elements
``record_batches`` collects. ``plain_parsing`` parses records, and ``plain_judging`` says what they certainly do.
``plain_columns`` converts the values of one field, with ``plain_times`` for times, ``plain_numbers`` for numbers
(``plain_digits`` for those that lose digits), ``plain_written`` for values that are not in JSON's own form, and
``plain_values`` for their types. ``plain_paths`` finds the values of a field, ``plain_texts`` reads values that are
written as text. ``plain_layouts`` lists the forms of times, ``plain_zones`` knows the offsets of time zones.
``unpacked_values`` decompresses values, and ``spliced_texts`` puts JSON in the place of texts that hold it.
``unique_names`` finds records in which the parser may have dropped one of two equal names.
"""
