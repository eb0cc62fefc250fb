"""Movie ratings in Avro, with two versions of the schema. A newer record of an event replaces the row of the event."""

from datetime import timedelta

from lakehouse.declaration import Avro, Check, Column, Computed, Late, Measure, Rollup, StreamTable, Time, Value
from lakehouse.examples.samples import MovieRatingSamples

movie_ratings = StreamTable(
    name="movie_ratings",
    topic="movie.ratings.v1",
    doc="Movie ratings: the latest value of each rating event.",
    file=__file__,
    format=Avro(),
    columns=[
        Column("event_id", "STRING", required=True, doc="Id of the rating event; a changed rating repeats it."),
        Column("user_id", "STRING", required=True, doc="Id of the user who rated."),
        Column("movie_id", "STRING", required=True, doc="Id of the rated movie."),
        Column("rating", "DOUBLE", required=True, between=(0, 10), doc="Rating from 0 (worst) to 10 (best)."),
        Column(
            "rating_timestamp",
            "TIMESTAMP",
            required=True,
            written=Time(epoch="seconds"),
            doc="Time of the rating, UTC.",
        ),
        Column("device", "STRING", doc="Device of the user; NULL before version 2 of the schema."),
        Computed("is_approved", "BOOLEAN", sql="rating >= 7", doc="Whether the rating is 7 or more."),
        Computed("rating_date", "DATE", sql="CAST(rating_timestamp AS DATE)", doc="Day of the rating, UTC."),
    ],
    key=["event_id"],
    partition_by=Value("rating_date"),
    late=Late("rating_timestamp", after=timedelta(days=5)),
    checks=[Check("of_somebody", "movie_id <> '' AND user_id <> ''", doc="Every rating names a user and a movie.")],
    rollups=[
        Rollup(
            name="movie_ratings_by_movie",
            by=["movie_id"],
            doc="Number, sum and latest time of the ratings of each movie.",
            measures={
                "ratings": Measure("count(*)", "BIGINT", "Number of ratings."),
                "approved": Measure("count_if(is_approved)", "BIGINT", "Number of ratings of 7 or more."),
                "rating_sum": Measure(
                    "sum(CAST(rating AS DECIMAL(18,6)))", "DECIMAL(28,6)", "Exact sum of the ratings."
                ),
                "rated_last": Measure("max(rating_timestamp)", "TIMESTAMP", "Time of the latest rating, UTC."),
            },
        )
    ],
    samples=MovieRatingSamples(),
)
