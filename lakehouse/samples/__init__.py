"""Deterministic sample records for the demo, the tests and benchmarks: the same bytes whenever they are made.

``temperatures`` is in no way bound to the clock; ``movie_ratings`` is dated by the day, since late ones are refused.
One module for each declared table that has samples; its class has the methods of ``lakehouse.declaration.Samples``,
and the declaration names it. To add samples, write a module beside them. It knows the standard library only.
"""
