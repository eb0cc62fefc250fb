"""What the engine changes because of its Java's environment and Spark's defaults."""

import pytest

from lakehouse.settings.spark_conf import HIDDEN_TEXT, REDACTION, TEXT_REDACTION
from lakehouse.spark.engine_main import describe_page, fit_to_java

LOOPBACK_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1"}
CONF = {"spark.master": "local[2]", "spark.ui.enabled": "true", HIDDEN_TEXT: "ours"}


@pytest.mark.parametrize("environment", [{"SPARK_LOCAL_IP": "0.0.0.0"}, {"SPARK_LOCAL_IP": "localhost"}, {}])  # noqa: S104
def test_a_ui_that_would_not_be_on_loopback_is_off_and_the_reason_is_shown(environment: dict[str, str]) -> None:
    assert fit_to_java(CONF, LOOPBACK_ENVIRONMENT, {}) == {}
    assert fit_to_java(CONF, environment, {}) == {"spark.ui.enabled": "false"}
    assert "spark-env.sh sets SPARK_LOCAL_IP" in describe_page(CONF, None)
    assert describe_page({**CONF, "spark.ui.enabled": "false"}, None) == ""


def test_with_a_cluster_the_ui_keeps_its_address() -> None:
    conf = {**CONF, "spark.master": "local-cluster[1,1,1024]"}
    assert fit_to_java(conf, {"SPARK_LOCAL_IP": "10.0.0.1"}, {}) == {}
    assert describe_page(conf, "http://public.example:4040") == "http://public.example:4040"


def test_a_local_ui_is_shown_with_the_loopback_address() -> None:
    assert describe_page(CONF, "https://public.example:4040") == "https://127.0.0.1:4040"


@pytest.mark.parametrize("name", [TEXT_REDACTION, HIDDEN_TEXT])
def test_text_that_sparks_defaults_hide_stays_hidden(name: str) -> None:
    assert fit_to_java(CONF, LOOPBACK_ENVIRONMENT, {name: "theirs"}) == {HIDDEN_TEXT: "ours|theirs"}
    assert fit_to_java({**CONF, REDACTION: "a"}, LOOPBACK_ENVIRONMENT, {REDACTION: "b"}) == {REDACTION: "a|b"}
    assert fit_to_java(CONF, LOOPBACK_ENVIRONMENT, {REDACTION: "b"}) == {REDACTION: "b"}, "the same as Spark itself"
