"""How values are unpacked before they are parsed.

``parser`` unpacks values, then parses them with another parser. ``compression`` decompresses them, with
``zstd_frames`` for the sizes that zstd promises, and ``encodings`` converts them to UTF-8.
"""
