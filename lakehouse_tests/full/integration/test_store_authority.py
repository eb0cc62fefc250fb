"""Tables in a store whose certificate an authority of the user signed: every client trusts it if it is named."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from lakehouse.local.java import find_java
from lakehouse_tests.helpers.tables.azurite import ACCOUNT, KEY, RUNNING
from lakehouse_tests.helpers.tables.store_commands import Commands
from lakehouse_tests.helpers.tables.store_proxy import running_proxy


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """An authority, which is in a file for Spark and in one for everything else."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    keytool = find_java().path.resolve().with_name("keytool")
    command = [str(keytool), "-importcert", "-noprompt", "-file", str(tmp_path / "authority.pem")]
    command += ["-keystore", str(tmp_path / "authorities.p12"), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run(command, check=True, capture_output=True)
    return authority


@pytest.fixture(params=RUNNING)
def commands(request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Path) -> Iterator[Commands]:
    """Commands whose tables are in a store with TLS."""
    certificate = tmp_path / "certificate.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(certificate))
    with RUNNING[request.param]() as store, running_proxy(store, certificate) as proxy:
        commands = Commands(tmp_path, f"{store.root}/lake".replace("abfs:", "abfss:"))
        options = [f"-Djavax.net.ssl.trustStore={tmp_path / 'authorities.p12'}"]
        options += ["-Djavax.net.ssl.trustStorePassword=changeit"]
        commands.variables |= {
            "SSL_CERT_FILE": str(tmp_path / "authority.pem"),
            "LAKEHOUSE_SPARK_CONF": json.dumps({"spark.driver.extraJavaOptions": " ".join(options)}),
            **_place(request.param, proxy.port),
        }
        yield commands


def test_tables_are_merged_and_queried_by_tls(commands: Commands) -> None:
    commands.publish({1: "here"})
    commands.run("merge", "items")
    assert commands.query("SELECT place FROM items") == [["here"]]
    assert "passed" in commands.run("audit", "items")


def test_a_store_with_an_unknown_authority_is_refused(commands: Commands) -> None:
    del commands.variables["SSL_CERT_FILE"]
    with pytest.raises(AssertionError, match="the certificate of the store is not trusted"):
        commands.run("doctor", "--json")


def _place(kind: str, port: int) -> dict[str, str]:
    endpoint = f"https://127.0.0.1:{port}"
    if kind == "s3":
        keys = {"ACCESS_KEY": "key", "SECRET_KEY": "secret", "REGION": "us-east-1", "ENDPOINT": endpoint}
        return {f"LAKEHOUSE_STORE_{name}": value for name, value in keys.items()}
    return {"LAKEHOUSE_STORE_ENDPOINT": f"{endpoint}/{ACCOUNT}", "LAKEHOUSE_STORE_SECRET_KEY": KEY}
