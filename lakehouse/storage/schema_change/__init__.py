"""Changes from the schema of a table to the declared one.

``diff`` compares the two and refuses what never changes, ``apply`` creates or alters the table, ``rewrite`` rewrites
every row in the declared form.
"""
