"""What needs neither a broker nor Spark: arithmetic, declarations, decoding, settings, the command line, files."""
