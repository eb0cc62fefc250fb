"""The ``lakehouse`` command: one module for each family of verbs.

``main`` assembles them and says what goes wrong in one sentence; ``table_session`` starts what a verb works with and
stops it, ``stopping`` within seconds; ``phases`` tells what is done meanwhile; ``arguments``, ``output`` and ``facts``
are what verbs share. A new verb goes into the module of its family. Modules import what a verb needs inside the verb,
so that ``--help`` answers at once; none imports Dagster.
"""
