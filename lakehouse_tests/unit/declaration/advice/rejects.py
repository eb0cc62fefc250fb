"""Rules that reject records: their reasons, their conditions, and the references that they name."""

from lakehouse.declaration import Avro, Column, Csv, Json, Reject
from lakehouse_tests.unit.declaration.advice.example import Example
from lakehouse_tests.unit.declaration.ratings import (
    SPOT,
    TableFactory,
    column,
    declare_reference,
    with_columns,
    with_reference,
)

KINDS = 'Write Reject("no_pieces", when="pieces <= 0"), or Reject("unknown_shop", unknown="shops", by=["shop_id"]).'
SUPPORTED = (
    "Use only the functions and operators that the page Declaration of the documentation lists for computed columns."
)
OTHER_REASON = "Choose another reason."
STARS = Reject("few", when="stars < 2")
MOVIE = Reject("unknown_movie", unknown="movies", by=["id"])


def with_rules(*rules: Reject) -> TableFactory:
    return with_columns(SPOT, rejects=rules)


def with_movies(*rules: Reject, type_: str = "INT") -> TableFactory:
    """The table with a column n, a column spot and rules, and a reference movies with a column n."""
    movies = declare_reference(column("n", type_)).references
    return with_columns(column("n"), SPOT, references=movies, rejects=rules)


EXAMPLES = [
    Example(
        "reject 'No stars': a name has at most 200 lower-case letters, digits and _, and starts with a letter",
        OTHER_REASON,
        with_rules(Reject("No stars", when="stars < 2")),
        with_rules(STARS),
    ),
    *[
        Example(
            f"reject {reason}: records are rejected for this reason without a rule",
            OTHER_REASON,
            with_rules(Reject(reason, when="stars < 2")),
            with_rules(STARS),
        )
        for reason in ("late", "filtered", "invalid_avro")
    ],
    Example(
        "reject few: two rules have this reason",
        "Give each its own, or join the conditions with OR.",
        with_rules(STARS, Reject("few", when="id < 0")),
        with_rules(STARS, Reject("no_id", when="id < 0")),
        with_rules(Reject("few", when="stars < 2 OR id < 0")),
    ),
    Example(
        "reject few: either when or unknown is required",
        KINDS,
        with_rules(Reject("few")),
        with_rules(STARS),
        with_movies(MOVIE),
    ),
    Example(
        "reject few: by belongs to unknown, which needs at least one column",
        KINDS,
        with_rules(Reject("few", when="stars < 2", by=["id"])),
        with_rules(STARS),
    ),
    Example(
        "reject few: stars2 is not a column that is read from records",
        "The columns are id, rated_at, stars.",
        with_rules(Reject("few", when="stars2 < 2")),
        with_rules(STARS),
    ),
    Example(
        "reject few: CURRENT_DATE is not supported",
        SUPPORTED,
        with_rules(Reject("few", when="CAST(rated_at AS DATE) > current_date()")),
        with_rules(Reject("few", when="CAST(rated_at AS DATE) > DATE '2030-01-01'")),
    ),
    Example(
        "reject few: the expression returns an integer, but the column is BOOLEAN",
        "No cast converts one to the other. Declare the column as BIGINT.",
        with_rules(Reject("few", when="stars")),
        with_rules(STARS),
    ),
    Example(
        "reject unknown_movie: the table has no reference movie",
        "Did you mean movies? Declare it in references=.",
        with_movies(Reject("unknown_movie", unknown="movie", by=["id"])),
        with_movies(MOVIE),
    ),
    Example(
        "reject unknown_movie: by: stars must be a column of records and of movies",
        "Declare it in both, with the same name and type.",
        with_movies(Reject("unknown_movie", unknown="movies", by=["stars"])),
        with_movies(Reject("unknown_movie", unknown="movies", by=["id", "n"])),
    ),
    Example(
        "reject unknown_movie: by: n is INT, but BIGINT in movies",
        "Declare the same type in both.",
        with_movies(Reject("unknown_movie", unknown="movies", by=["n"]), type_="BIGINT"),
        with_movies(Reject("unknown_movie", unknown="movies", by=["n"])),
    ),
    Example(
        "reference movies: format Avro needs a registry or a connector, which write no files",
        "Declare the format of the lines, such as Json() or Csv(...).",
        with_reference(format=Avro()),
        with_reference(format=Json()),
        with_reference(format=Csv(columns=["id"])),
    ),
    Example(
        "reference movies: column town reads the path id.town, but format Csv has only texts",
        "Name one field.",
        with_reference(Column("town", "STRING", "Where.", source=("id", "town")), format=Csv(columns=["id"])),
        with_reference(format=Csv(columns=["id"])),
    ),
]
