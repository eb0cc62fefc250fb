"""The fast path: ``plain_records`` decodes many records at once if they are certainly valid.

``plain_columns`` converts the values of one field, with ``plain_times`` for times and ``plain_numbers`` for numbers.
``plain_layouts`` lists the forms of times, ``plain_zones`` knows the offsets of time zones.
``unique_names`` finds records in which the parser may have dropped one of two equal names.
"""
