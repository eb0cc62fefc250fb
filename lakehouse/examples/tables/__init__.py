"""The tables that are declared where the settings name no others: one file each."""
