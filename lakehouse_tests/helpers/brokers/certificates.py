"""Certificates of a test authority, as PEM files."""

import subprocess
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """A certificate authority. Its folder has its own certificate ``ca.pem`` and the certificates that it signs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def sign(
        self, host: str, password: str | None = None, key_format: PrivateFormat = PrivateFormat.PKCS8
    ) -> tuple[Path, Path]:
        """Return the files of a certificate for a host and of its private key, which a password encrypts."""
        leaf = self._ca.issue_cert(host)
        certificate, key = (self._folder / f"{host}-{part}.pem" for part in ("certificate", "key"))
        certificate.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        private_key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        key.write_bytes(private_key.private_bytes(Encoding.PEM, key_format, encryption))
        return certificate, key


def encrypted_for_java(key: Path, password: str) -> Path:
    """Encrypt the key in the only way that the Java client of Kafka can read."""
    file = key.with_name(f"java-{key.name}")
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", str(key), "-out", str(file)]
    subprocess.run([*command, "-passout", f"pass:{password}"], check=True, capture_output=True)
    return file
