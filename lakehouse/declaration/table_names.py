"""The names that follow from the name of a declaration."""


class TableNames:
    """The names of the tables and assets of a declaration."""

    name: str

    @property
    def base_name(self) -> str:
        """Name of the table that holds the base rows."""
        return f"{self.name}_base"

    @property
    def rejected_name(self) -> str:
        """Name of the table that holds the rejected records."""
        return f"{self.name}_rejected"

    @property
    def deletes_name(self) -> str:
        """Name of the table that holds the newest delete of each key."""
        return f"{self.name}_deletes"

    @property
    def schemas_name(self) -> str:
        """Name of the table that stores the schemas by which records were decoded."""
        return f"{self.name}_schemas"

    @property
    def files_name(self) -> str:
        """Name of the table that holds the numbers of files, if the records come from files."""
        return f"{self.name}_files"

    @property
    def changes_name(self) -> str:
        """Name of the change feed."""
        return f"{self.name}_changes"

    @property
    def replayed_name(self) -> str:
        """Name of the asset whose partitions are days to replay; it has no table."""
        return f"{self.name}_replayed"
