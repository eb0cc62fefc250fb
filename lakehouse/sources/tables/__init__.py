"""Another Delta table as a source: partition 0 has its rows as of one version, partition 1 the changes since.

``versions`` describes which versions it holds, and which of them can no longer be read. ``source`` gives rows and
changes to Spark, each with a place.
"""
