"""What each catalog can do: read, create and replace the registration of a table."""

from abc import ABC, abstractmethod

from lakehouse.catalogs.registration import Registration


class Catalog(ABC):
    """A catalog of the settings. Each method raises ``CatalogError`` if the catalog cannot be reached or refuses.

    ``place`` names it in errors. ``replacing_loses`` says what of a registration is lost if it is replaced.
    """

    place: str
    replacing_loses = ""

    @abstractmethod
    def fit(self, registration: Registration) -> Registration:
        """Return a registration as this catalog can hold it, so that what it then returns is equal."""

    @abstractmethod
    def read(self, name: str) -> Registration | None:
        """Return what the catalog has under a name, with one request; ``None`` if it has nothing."""

    @abstractmethod
    def create(self, registration: Registration) -> None:
        """Write a registration under a name that is free."""

    @abstractmethod
    def replace(self, registration: Registration) -> None:
        """Write a registration in place of one of ours."""
