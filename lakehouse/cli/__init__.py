"""The ``lakehouse`` command: one module for each family of verbs.

Modules import what a verb needs inside the verb, so that ``--help`` answers at once.
"""
