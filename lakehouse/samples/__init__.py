"""Deterministic sample records for the demo, the tests and benchmarks: the same bytes whenever they are made.

One module for each declared table that has samples; its class has the methods of ``lakehouse.declaration.Samples``, and
the declaration names it. To add samples, write a module beside ``temperatures``. It knows the standard library only.
"""
