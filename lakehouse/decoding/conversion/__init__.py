"""Columns of many records: the values of one field are converted together, if each is certainly valid.

``raw_values`` finds the values of a field. ``columns`` converts them, with ``numbers``, with ``times``, and with
``written`` for values that are not in the form of JSON. Values that are not certain are marked, for the strict rules.
"""
