"""Keys of callers and servers, in files of a test."""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rtagent.conf.rpc import Rpc
from rtagent.rpc.context import CallContext, Proof
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.keys import PublicKey, keys_text
from rtagent.rpc.trust.token import CallClaims, arguments_digest
from tests.support.hosts import uid

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


DAY = timedelta(days=1)


class KeyFiles:
    """A keys file, and the files of private keys in its directory. :ivar path: of the keys file."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.path = directory, directory / "keys.json"
        self._entries: dict[str, PublicKey] = {}
        self._write()

    def add(
        self,
        name: str,
        *roles: str,
        host: str | None = None,
        valid: tuple[timedelta, timedelta] = (-DAY, DAY),
    ) -> PrivateKey:
        """Make a key, valid from and until these times from now on."""
        key, now = PrivateKey.generate(name), datetime.now(UTC).replace(microsecond=0)
        self.file(name).write_text(key.text())
        self.file(name).chmod(0o600)
        self._entries[name] = key.public(roles, (now + valid[0], now + valid[1]), host)
        self._write()
        return key

    def revoke(self, name: str) -> None:
        """Remove a key from the keys file."""
        del self._entries[name]
        self._write()

    def file(self, name: str) -> Path:
        """The file of a private key."""
        return self._directory / f"{name}.jwk"

    def options(self, name: str | None = None, **more: Any) -> dict[str, object]:
        """The options of ``[rpc]`` of a program that signs with a key."""
        named = {} if name is None else {"signing_key": str(self.file(name))}
        return {"keys_file": str(self.path), **named, **more}

    def settings(self, **more: Any) -> Rpc:
        """The same as settings."""
        return Rpc(**{"keys_file": str(self.path), **more})

    def _write(self) -> None:
        self.path.write_text(keys_text(tuple(self._entries.values())))


def signed_context(
    key: PrivateKey, now: datetime, document: Mapping[str, Any], **changed: Any
) -> CallContext:
    """The context of a signed call of ``release_claim`` on host-1.

    :param changed: claims that are signed in place of the right ones.
    """
    claims = CallClaims(
        **{
            "aud": "rtagent.host-1",
            "method": "release_claim",
            "digest": arguments_digest(document),
            "nonce": "",
            "iat": now.timestamp(),
            "jti": uid(),
            **changed,
        }
    )
    context = CallContext(user_id="said", roles=["operator"], overwrite=False)
    context.proof = Proof(signature=key.token(claims))
    return context
