"""Tables that are declared where the settings name this package, as in this repository: one file each."""
