"""What the engine itself finds in its Java, and so does other than it was told."""

import pytest

from lakehouse.settings.spark_conf import HIDDEN_TEXT, REDACTION, TEXT_REDACTION
from lakehouse.spark.engine_main import describe_page, fit_to_java

HERE = {"SPARK_LOCAL_IP": "127.0.0.1"}
CONF = {"spark.master": "local[2]", "spark.ui.enabled": "true", HIDDEN_TEXT: "ours"}


@pytest.mark.parametrize("environment", [{"SPARK_LOCAL_IP": "0.0.0.0"}, {"SPARK_LOCAL_IP": "localhost"}, {}])  # noqa: S104
def test_an_engine_has_no_page_where_it_would_not_be_on_loopback_and_says_so(environment: dict[str, str]) -> None:
    assert fit_to_java(CONF, HERE, {}) == {}
    assert fit_to_java(CONF, environment, {}) == {"spark.ui.enabled": "false"}
    assert "spark-env.sh sets SPARK_LOCAL_IP" in describe_page(CONF, None)
    assert describe_page({**CONF, "spark.ui.enabled": "false"}, None) == ""


def test_a_page_on_a_cluster_is_where_a_person_wants_it() -> None:
    conf = {**CONF, "spark.master": "local-cluster[1,1,1024]"}
    assert fit_to_java(conf, {"SPARK_LOCAL_IP": "10.0.0.1"}, {}) == {}
    assert describe_page(conf, "http://public.example:4040") == "http://public.example:4040"


def test_the_page_is_named_by_loopback_whatever_the_public_name_of_the_machine_is() -> None:
    assert describe_page(CONF, "https://public.example:4040") == "https://127.0.0.1:4040"


@pytest.mark.parametrize("name", [TEXT_REDACTION, HIDDEN_TEXT])
def test_what_spark_s_file_of_defaults_hides_stays_hidden(name: str) -> None:
    assert fit_to_java(CONF, HERE, {name: "theirs"}) == {HIDDEN_TEXT: "ours|theirs"}
    assert fit_to_java({**CONF, REDACTION: "a"}, HERE, {REDACTION: "b"}) == {REDACTION: "a|b"}
    assert fit_to_java(CONF, HERE, {REDACTION: "b"}) == {REDACTION: "b"}, "as Spark itself does"
