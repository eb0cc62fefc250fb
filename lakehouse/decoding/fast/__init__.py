"""The fast path: ``plain_records`` decodes many records at once if they are certainly valid.

``plain_columns`` converts the values of one field, ``plain_times`` converts times.
"""
