"""Certificates of a private authority, with the common names of users."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: A certificate is valid for this time, unless it has expired.
VALID = timedelta(days=1)


class Authority:
    """Signs certificates. :ivar ca: the file of its own certificate."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = _builder(self._name, self._name, self._key, timedelta())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self.ca = self._write(f"{name}.pem", builder.sign(self._key, hashes.SHA256()))

    def certificate(self, user: str, *, expired: bool = False) -> tuple[Path, Path]:
        """Make a certificate and its key for a user, or for a server on this machine."""
        key, age = ec.generate_private_key(ec.SECP256R1()), 2 * VALID if expired else timedelta()
        builder = _builder(_named(user), self._name, key, age).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        name = f"{user}-expired" if expired else user
        file = self._directory / f"{name}.key"
        private = partial(key.private_bytes, serialization.Encoding.PEM)
        text = private(serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        file.write_bytes(text)
        return self._write(f"{name}.pem", builder.sign(self._key, hashes.SHA256())), file

    def _write(self, name: str, certificate: x509.Certificate) -> Path:
        file = self._directory / name
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return file


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, age: timedelta
) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(hours=1) - age
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=begin,
        not_valid_after=begin + VALID,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
