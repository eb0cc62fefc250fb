"""Decode the bytes of a record into a typed row, or into the reason why it is rejected.

Records are decoded in batches, in this order. ``batch`` unpacks and parses them, ``native`` parses JSON quickly,
``effects`` decides which belong to the table and what they do, ``exploded_rows`` finds their ``rows``, ``columns``
converts the values of each field with ``conversion``, and ``verdicts`` puts the result together. A value or a record of
which the quick way is not certain goes to the strict rules; these alone define what is valid. ``one_record`` is a batch
of one.

``files`` splits files into records, ``generated`` computes records, and ``formats`` parse their bytes. ``fields``
defines the rules for one field, and ``Rejection``, ``rules`` those of a table. ``record_parts`` names the parts of a
record that a field can be read from. ``records`` parses JSON strictly, with ``json_parsing``. ``values`` converts
parsed values into typed ``numbers`` and ``times``, with ``time_texts`` and ``nested_types``. ``written`` reads values
that are not in JSON's own form, as ``written_forms`` declares it, with ``json_texts``, ``byte_texts`` and
``key_values``; ``cut`` reads parts of texts. ``record_filter`` and ``deletes`` are the rules of what records do.
``memory`` limits the memory of one record. ``record_keys`` parses keys. ``opened_texts`` opens texts that hold JSON.
``unmapped_fields`` counts fields that no column reads, ``unmapped_values`` collects their values. ``staged`` names the
columns of records within a batch, ``column_types`` has types, ``arrow_types`` those of Arrow.

A new format is a module in ``formats``. The package has no declaration and no Spark, and nothing in it but ``files``
reads or writes. It runs on the driver, and it is the only package of this project that is sent to Spark's workers.
"""
