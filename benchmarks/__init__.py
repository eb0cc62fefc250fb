"""Benchmarks: ratios between contenders that take turns within one run. ``make bench`` starts them.

``world`` prepares a home, a broker, a session and tables with rows. ``turns`` measures, ``report`` writes the results,
``picture`` draws them, and ``figures`` compares README and docs with them.
Every other module is a section. No benchmark is a test: none asserts a time.
"""
