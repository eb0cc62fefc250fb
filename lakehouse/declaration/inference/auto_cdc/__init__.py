"""Flows of AUTO CDC, as Spark's declarative pipelines declare them, read as a proposed declaration.

``flow`` is a flow, ``select`` chooses the one of a file, ``python_flows`` and ``sql_flows`` read the two kinds of files
without running them. ``conditions`` translates expressions, ``proposed_flow`` proposes the declaration.
"""
