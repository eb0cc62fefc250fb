"""Formats that have only texts.

``text`` is a text as a whole, and the base of ``csv`` and ``logfmt``. ``recognition`` finds the format of texts.
"""
