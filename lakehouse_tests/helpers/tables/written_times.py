"""Hypothesis strategies for texts that are times: by patterns, in ISO 8601, with offsets, near changes of clocks."""

from hypothesis import strategies as st

from lakehouse.declaration import Zone
from lakehouse.decoding.time_texts import ISO8601, MONTHS

ZONES = (
    "Europe/Berlin",
    Zone("Europe/Berlin", ambiguous="earlier", missing="later"),
    Zone("Europe/Berlin", ambiguous="later", missing="earlier"),
    Zone("Australia/Lord_Howe", ambiguous="later", missing="later"),  # half an hour
    Zone("America/Sao_Paulo", ambiguous="earlier", missing="earlier"),  # at midnight
    Zone("Pacific/Apia", missing="later"),  # a day that did not occur
    "UTC",
)
_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
_ISO_FORMS = (
    "%Y-%m-%d",
    *(f"%Y-%m-%d{separator}%H:%M{rest}{offset}" for separator in "Tt "
      for rest in ("", ":%S", ":%S.%f", ":%S,%f") for offset in ("", "%z")),
)  # fmt: skip
_OFFSETS = "Z z +02:00 -05:30 +0200 -0030 +02 -12 +00:00 -00:00 +23:59 -23:59 +24:00 +01:60 +2:00 +02: 02:00".split()
_DATES = st.tuples(st.integers(0, 9999) | st.integers(1970, 2030), st.integers(0, 13), st.integers(0, 32))
_CHANGES = st.sampled_from(  # of clocks, and the first and the last day of all
    [(2026, 3, 29), (2026, 10, 25), (2026, 4, 5), (2018, 11, 4), (2018, 2, 17), (2011, 12, 30), (1893, 4, 1),
     (1, 1, 1), (9999, 12, 31)]
)  # fmt: skip
_CLOCKS = st.tuples(st.integers(0, 24), st.integers(0, 60), st.integers(0, 61)) | st.tuples(
    st.integers(0, 3), st.sampled_from([0, 29, 30, 59]), st.sampled_from([0, 59])
)
_FRACTIONS = st.text("0123456789", min_size=1, max_size=10) | st.sampled_from(["9999995", "9999994", "0000005"])


def times(pattern: str) -> st.SearchStrategy[str]:
    """Texts in JSON that the pattern usually accepts."""
    if pattern == ISO8601:
        return st.sampled_from(_ISO_FORMS).flatmap(times)

    def write_time(date: tuple[int, ...], clock: tuple[int, ...], fraction: str, offset: str) -> str:
        text = pattern
        for (directive, width), number in zip(_WIDTHS.items(), (*date, *clock), strict=True):
            text = text.replace(directive, f"{number:0{width}d}")
            if directive == "%m":
                text = text.replace("%b", [*MONTHS, "Jän", "jaN"][number])
        return f'"{text.replace("%f", fraction).replace("%z", offset)}"'

    return st.builds(write_time, _DATES | _CHANGES, _CLOCKS, _FRACTIONS, st.sampled_from(_OFFSETS))
