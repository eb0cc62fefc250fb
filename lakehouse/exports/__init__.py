"""Files that follow a table: all of its rows, or what changed, published once by manifests. Without a JVM.

``exporter`` runs one export, and ``attempts`` one attempt to write its files. ``rows`` selects its rows from a fixed
version of the table, or what changed between two versions. ``files`` writes them in one of the formats (``row_texts``
are those of CSV and JSON lines), ``manifests`` publishes the files of a version in one step, and ``leftovers`` removes
what no reader needs. ``progress`` says how far an export is, what is gone of it, and whether VACUUM has to wait for it.

Nothing here knows which exports are declared. The only writer of the folder of an export is this package.
"""
