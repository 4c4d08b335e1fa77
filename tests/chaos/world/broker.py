"""A broker that only accepts TLS, from clients with certificates."""

import shutil
import ssl
from collections.abc import Mapping

import amqp

from tests.servers.rabbitmq import LIMITS, RabbitMQ
from tests.servers.server import accepts
from tests.support.trust import Authority

_CONFIG = """\
listeners.tcp = none
listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = {ca}
ssl_options.certfile = {cert}
ssl_options.keyfile = {key}
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
"""


class TlsRabbitMQ(RabbitMQ):
    """RabbitMQ with TLS. A client reads the files of its certificate at each new connection."""

    name = "tls-rabbitmq"

    def __init__(self) -> None:
        super().__init__()
        self._authority = Authority(self.directory / "tls")
        self._own = self.options("localhost")

    def prepare(self) -> None:
        super().prepare()
        cert, key = self._own["ssl_cert_file"], self._own["ssl_key_file"]
        text = _CONFIG.format(port=self.port, ca=self._authority.ca, cert=cert, key=key)
        (self.directory / "rabbitmq.conf").write_text(text + LIMITS)

    def options(self, client: str) -> Mapping[str, str]:
        """Return ``[oslo_messaging_rabbit]`` of a client, which gets a new certificate."""
        cert, key = self._authority.certificate(client)
        return {
            "ssl": "true",
            "ssl_ca_file": str(self._authority.ca),
            "ssl_cert_file": str(cert),
            "ssl_key_file": str(key),
        }

    def expire(self, client: str) -> None:
        """Replace the certificate of a client by one that has expired."""
        cert, key = self._authority.certificate(client, expired=True)
        for file in (cert, key):
            shutil.copy(file, file.with_stem(client))

    def renew(self, client: str) -> None:
        """Replace the certificate of a client by a valid one."""
        self._authority.certificate(client)

    def answers(self) -> bool:
        if not accepts(self.port):
            return False
        tls = {
            "ca_certs": str(self._authority.ca),
            "cert_reqs": ssl.CERT_REQUIRED,
            "certfile": self._own["ssl_cert_file"],
            "keyfile": self._own["ssl_key_file"],
            "server_hostname": "127.0.0.1",
        }
        try:
            with amqp.Connection(f"127.0.0.1:{self.port}", ssl=tls, connect_timeout=5):
                return True
        except (OSError, amqp.exceptions.AMQPError):
            return False
