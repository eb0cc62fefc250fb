"""Decode the bytes of a record into a typed row, or into the reason why it is rejected.

``files`` splits files into records, ``generated`` computes records, and ``formats`` parse their bytes. ``fields``
defines the rules for one field, and ``Rejection``. ``record_parts`` names the parts of a record that a field can be
read from. ``nested_types`` parses ARRAY, MAP and STRUCT types. ``records`` parses records of JSON strictly, with
``json_parsing``. ``values`` converts parsed values into typed ``numbers`` and ``times``, with ``time_texts`` for times
that are texts and ``zones`` for time zones. ``written`` reads values that are not in JSON's own form, as
``written_forms`` declares it, with ``json_texts``, ``byte_texts``, ``unscaled_decimals`` and ``key_values``. ``judge``
decodes one record by the ``rules`` of its table, ``elements`` one with many rows. ``verdicts`` and ``element_verdicts``
decode many at once, into ``verdict_arrays``, and ``fast`` handles those that are certainly valid. ``records`` and
``values`` alone define what is valid. ``record_filter`` decides which records belong to the table, ``known_values``
which have values of a reference, ``deletes`` which delete or truncate, ``changes`` what a record says, ``former_keys``
whether an update changes its key. ``memory`` limits the memory of one record. ``record_keys`` parses keys,
``key_windows`` splits windows from them. ``opened_texts`` opens texts that hold JSON, on the way to a field.
``unmapped_fields`` counts fields that no column reads, ``unmapped_values`` collects their values. ``staged`` names the
columns of records within a batch, ``record_schema`` has their types before decoding. ``column_types`` defines the types
of columns, ``arrow_types`` their Arrow types.

A new format is a module in ``formats``. The package has no declaration and no Spark, and nothing in it but ``files``
reads or writes. It runs on the driver, and it is the only package of this project that is sent to Spark's workers.
"""
