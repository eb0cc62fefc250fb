"""From the schema that a table has to the one that is declared.

``diff`` says what a table lacks, ``apply`` makes the table or gives it what it lacks, ``rewrite`` writes every row once
in the declared form.
"""
