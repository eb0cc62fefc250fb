"""The example tables, one file each. They are declared if the settings name this package, as in this repository."""
