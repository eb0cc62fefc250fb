"""The model of a table that reads several topics: a partition is (source, number), a source the identity of a topic."""

from lakehouse_tests.helpers.histories.log_histories import LogModel
from lakehouse_tests.helpers.histories.model import Model
from lakehouse_tests.helpers.histories.model_values import Partition


class TopicModel(Model):
    """The expected tables; ``names`` has the topic of each source, ``current`` the source of each topic."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        self.current: dict[str, str] = {}

    def add_topic(self, name: str, source: str, partitions: int) -> None:
        """Add a topic, or one that was created again: nobody can read the records of the one before any more."""
        assert source not in self.names, "a topic that was created again is another source"
        self.names[source], self.current[name] = name, source
        self.topic |= {(source, number): [] for number in range(partitions)}

    @property
    def current_partitions(self) -> list[Partition]:
        return sorted(place for place in self.topic if place[0] in self.current.values())

    def partitions_of(self, source: str) -> list[Partition]:
        return sorted(place for place in self.topic if place[0] == source)

    def has_progress(self, source: str) -> bool:
        return any(place[0] == source for place in self.now.progress)

    def progress_before(self, source: str) -> dict[Partition, int]:
        """Return the progress of the former topic with the name of a current one, if the table still reads that."""
        name = self.names[source]
        progress = self.now.progress.items()
        return {place: end for place, end in progress if place[0] != source and self.names[place[0]] == name}

    def furthest_progress(self) -> dict[Partition, int]:
        """Return the end of what was ever read of each partition, also by commits that a RESTORE undid."""
        ends: dict[Partition, int] = {}
        for moment in self.moments.values():
            ends |= {place: max(end, ends.get(place, 0)) for place, end in moment.progress.items()}
        return ends

    def begin(self, source: str, starts: dict[Partition, int]) -> None:
        """Begin a source, or continue it after a gap, in place of the former topic with its name."""
        for place in self.progress_before(source):
            del self.now.progress[place]
        self.now.progress |= starts
        self.now.sources |= {source}

    def is_pending(self, partition: Partition, offset: int) -> bool:
        """Rejected records of a former topic stay, because nothing reads them again."""
        if self.has_progress(partition[0]):
            return super().is_pending(partition, offset)
        begun_names = {self.names[source] for source in self.now.sources}
        return not self.now.progress or self.names[partition[0]] not in begun_names


class TopicLogModel(TopicModel, LogModel):
    """The model of a log table that reads several topics."""
