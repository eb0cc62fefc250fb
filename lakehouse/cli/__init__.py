"""The ``lakehouse`` command line: one module for each family of commands.

``main`` assembles the commands and reports errors in one line. ``table_session`` starts and stops what a command works
with, within seconds. ``output`` prints results, and the current phase of a long command. ``arguments`` and ``facts``
are shared by the commands. Add a new command to the module of its family. Import what a command needs inside the
command, so that ``--help`` answers at once. No module here imports Dagster.
"""
