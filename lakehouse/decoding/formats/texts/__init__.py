"""Formats that have only texts.

``text`` is a text as a whole, and the base of ``csv``, ``logfmt`` and ``cut_texts``. ``recognition`` finds the format
of texts.
"""
