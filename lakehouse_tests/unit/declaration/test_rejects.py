"""Rules that reject are facts of a declaration, and SQL that no row can make fail."""

from dataclasses import replace

from lakehouse.declaration import Computed, Reject
from lakehouse.declaration.snapshot import differences, facts_of
from lakehouse_tests.unit.declaration.ratings import column, declare, declare_reference

FEW = Reject("few", when="stars < 2")


def test_a_rule_is_a_fact_of_the_declaration_and_its_change_is_named() -> None:
    plain, judged, changed = (declare(rejects=rules) for rules in ([], [FEW], [replace(FEW, when="stars < 3")]))
    assert len({table.fingerprint for table in (plain, judged, changed)}) == 3
    assert declare().fingerprint == plain.fingerprint
    assert [*differences(facts_of(plain), facts_of(judged))] == [("reject few", "reject few is new")]
    (change,) = differences(facts_of(judged), facts_of(changed))
    assert change == ("reject few", "reject few: when was 'stars < 2', is 'stars < 3'")
    (removal,) = differences(facts_of(judged), facts_of(plain))
    assert removal == ("reject few", "reject few is no longer declared")
    old = Reject("old", when="id < 5")
    assert declare(rejects=[FEW, old]).fingerprint != declare(rejects=[old, FEW]).fingerprint


def test_the_columns_of_a_reference_that_a_rule_names_are_facts_of_the_declaration() -> None:
    references = declare_reference(column("n")).references
    rules = [[Reject("lost", unknown="movies", by=by)] for by in (["id"], ["id", "n"])]
    tables = [declare(column("n"), references=references, rejects=rejects) for rejects in rules]
    assert tables[0].fingerprint != tables[1].fingerprint


def test_conditions_read_columns_and_computed_columns_of_a_row_or_of_a_struct() -> None:
    low = Computed("low", "BOOLEAN", sql="stars < 2", doc="Few.")
    references = declare_reference().references
    rules = [Reject("few", when="low AND ID > 1"), Reject("lost", unknown="movies", by=["id"])]
    table = declare(low, references=references, rejects=rules)
    condition = "try_cast((try_cast(({0}`stars` < 2) AS BOOLEAN) AND ({0}`id` > 1)) AS BOOLEAN)"
    assert table.reject_conditions() == [condition.format(""), "_unknown_1"]
    assert table.reject_conditions("verdict") == [condition.format("verdict."), "verdict._unknown_1"]
    assert table.computed == {"low": "try_cast((`stars` < 2) AS BOOLEAN)"}


def test_a_table_with_rules_has_sql_that_spark_checks() -> None:
    assert declare(rejects=[FEW]).has_sql
    assert not declare().has_sql
