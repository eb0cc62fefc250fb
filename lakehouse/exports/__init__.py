"""Files that follow a table: all of its rows, or what changed, published once by manifests. Without a JVM.

``exporter`` runs one export. ``progress`` says how far an export is, what is gone of it, and whether VACUUM has to wait
for it. ``attempts`` makes one attempt to write its files: it selects the rows of a fixed version of the table, or what
changed between two versions. ``files`` writes them in one of the formats (``row_texts`` are those of CSV and JSON
lines). ``manifests`` publishes the files of a version in one step, and removes what no reader needs.

Nothing here knows which exports are declared. The only writer of the folder of an export is this package.
"""
