"""Another Delta table as a source: partition 0 has its rows as of one version, partition 1 the changes since.

``versions`` describes which versions it holds, ``lost`` which of them can no longer be read. ``read`` gives rows and
changes to Spark, each with a place. ``source`` joins them.
"""
