"""Records that are plainly fine, decoded many at once: ``plain_records``.

``plain_columns`` converts the values of one field, ``plain_times`` those that are times.
"""
