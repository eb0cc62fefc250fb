"""Ratings of movies, written in Avro by two versions of a schema: an event that is told again replaces what it said."""

from datetime import timedelta

from lakehouse.declaration import Avro, Check, Column, Late, Measure, Rollup, StreamTable, Value
from lakehouse.examples.samples.rating_records import MovieRatingSamples

movie_ratings = StreamTable(
    name="movie_ratings",
    topic="movie.ratings.v1",
    doc="Ratings of movies: one row for each event, as it was told last.",
    file=__file__,
    format=Avro(),
    columns=[
        Column("event_id", "STRING", required=True, doc="Which event; told again where its rating changes."),
        Column("user_id", "STRING", required=True, doc="Who rated."),
        Column("movie_id", "STRING", required=True, doc="What was rated."),
        Column("rating", "DOUBLE", required=True, between=(0, 10), doc="From 0, the worst, to 10."),
        Column("rating_timestamp", "TIMESTAMP", required=True, epoch="seconds", doc="When it was rated, UTC."),
        Column("device", "STRING", doc="Where it was typed; NULL before the second version of the schema."),
        Column("is_approved", "BOOLEAN", sql="rating >= 7", doc="Whether the movie was liked: 7 or more."),
        Column("rating_date", "DATE", sql="CAST(rating_timestamp AS DATE)", doc="The day of the rating, UTC."),
    ],
    key=["event_id"],
    partition_by=Value("rating_date"),
    late=Late("rating_timestamp", after=timedelta(days=5)),
    checks=[Check("of_somebody", "movie_id <> '' AND user_id <> ''", doc="A rating is of somebody, and of a movie.")],
    rollups=[
        Rollup(
            name="movie_ratings_by_movie",
            by=["movie_id"],
            doc="Ratings by movie.",
            measures={
                "ratings": Measure("count(*)", "BIGINT", "How many there are."),
                "approved": Measure("count_if(is_approved)", "BIGINT", "How many of them are 7 or more."),
                "rating_sum": Measure("sum(CAST(rating AS DECIMAL(18,6)))", "DECIMAL(28,6)", "Their sum, exact."),
                "rated_last": Measure("max(rating_timestamp)", "TIMESTAMP", "The last of them, UTC."),
            },
        )
    ],
    samples=MovieRatingSamples(),
)
