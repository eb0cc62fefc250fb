"""Deterministic sample records for the demo, the tests and the benchmarks: every run generates the same bytes.

``temperature_records`` does not depend on the clock. ``rating_records`` depends on the date, because its table rejects
late records. Each declared table with samples has one module here. The class of the module implements
``lakehouse.declaration.Samples``, and the declaration refers to it. To add samples, add a module. These modules import
only the standard library.
"""
