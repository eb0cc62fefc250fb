"""Deterministic sample records for the demo, the tests and benchmarks: the same bytes whenever they are made.

``temperature_records`` is in no way bound to the clock; ``rating_records`` is dated by the day, since late ones are
refused. One module for each declared table that has samples; its class has the methods of
``lakehouse.declaration.Samples``, and the declaration names it. To add samples, write a module beside them. It knows
the standard library only.
"""
