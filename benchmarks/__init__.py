"""How fast it is, as ratios of things that were measured in turns in one run: ``make bench``.

``world`` is what is measured on (a home, a broker, a session, tables with rows), ``turns`` measures, ``report`` writes
figures down; each other module is a section. Nothing here is a test: no time is asserted.
"""
