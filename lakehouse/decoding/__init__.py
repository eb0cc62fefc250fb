"""The bytes of a record → a typed row, or the reason why it may not enter.

``formats`` parse the bytes. ``fields`` are the rules for one field, and ``Rejection``; ``record_parts`` says which part
of a record a field is in, ``nested_types`` what follows from a type that holds others. ``records`` parses JSON
strictly, ``values`` turns what was parsed into typed ``numbers`` and ``times``. ``verdicts`` decides many records at
once, and ``fast`` those that are plainly fine: what a record may be is said in ``records`` and ``values`` alone.
``memory`` limits how much of it one record takes, ``unmapped_fields`` counts fields that no column takes. ``staged``
names the columns of records within a batch. ``column_types`` are the types that a column may have, ``arrow_types`` the
same for Arrow.

A new format is a module in ``formats``. Pure: no input or output, no declaration, no Spark. It runs on the driver, and
is the only package of ours that is sent to Spark's workers.
"""
