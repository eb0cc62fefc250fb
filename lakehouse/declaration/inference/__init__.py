"""A declaration proposed from records: ``proposal``.

``proposed_types`` finds the types of columns, ``proposed_key`` the key, ``proposed_kinds`` whether the topic contains
records of several types.
"""
