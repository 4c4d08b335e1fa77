"""RabbitMQ with the shipped configuration: TLS, client certificates, few rights for each user."""

import shutil
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import amqp

from tests.functional.cli.shell import run
from tests.servers.daemon import ROOT
from tests.servers.rabbitmq import LIMITS, RabbitMQ
from tests.servers.server import accepts
from tests.support.trust import Authority

RECIPE = ROOT / "etc/rtagent/rabbitmq"
VHOST = "rtagent"


class GuardedRabbitMQ(RabbitMQ):
    """A broker with the files of ``etc/rtagent/rabbitmq``, and the definitions of some hosts.

    :ivar authority: signs the certificates of its users.
    """

    name = "guarded-rabbitmq"

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__()
        self._hosts = hosts
        self.authority = Authority(self.directory / "tls")
        self._certificates: dict[str, dict[str, str]] = {}
        self._definitions = self.directory / "definitions.json"

    def prepare(self) -> None:
        super().prepare()
        made = run("broker", "definitions", *self._hosts)
        assert made.code == 0, made.err
        self._definitions.write_text(made.out)
        cert, key = self.authority.certificate("localhost")
        here = {
            "listeners.ssl.default = 5671": f"listeners.ssl.1 = 127.0.0.1:{self.port}",
            "/etc/rabbitmq/tls/ca.pem": str(self.authority.ca),
            "/etc/rabbitmq/tls/cert.pem": str(cert),
            "/etc/rabbitmq/tls/key.pem": str(key),
            "/etc/rabbitmq/definitions.json": str(self._definitions),
        }
        text = (RECIPE / "rabbitmq.conf").read_text()
        for ours, private in here.items():
            assert ours in text
            text = text.replace(ours, private)
        (self.directory / "rabbitmq.conf").write_text(text + LIMITS)
        shutil.copy(RECIPE / "enabled_plugins", self.directory / "enabled_plugins")

    def answers(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with self.connection("operator"):
                return True
        except (OSError, amqp.exceptions.AMQPError):
            return False

    def restore(self) -> None:
        """Give each user the rights of the recipe again."""
        file = f'{{ok, Definitions}} = file:read_file("{self._definitions}")'
        self.evaluate(f"{file}, ok = rabbit_definitions:import_raw(Definitions)")

    def clear_topics(self, user: str) -> None:
        """Let a user publish to any topic of the exchanges that it may write to."""
        self._change("clear_topic_permissions", user, VHOST)

    def queues(self) -> list[list[str]]:
        """Return name, consumers and messages of each queue."""
        printed = self.evaluate(
            'lists:flatten([io_lib:format("~s ~b ~b;", [Name, Consumers, Messages]) ||'
            " [{_, {_, _, _, Name}}, {_, Consumers}, {_, Messages}] <-"
            f' rabbit_amqqueue:info_all(<<"{VHOST}">>, [name, consumers, messages])])'
        )
        return [row.split() for row in printed.strip('"[]').split(";") if row]

    def url(self, user: str) -> str:
        """Return the URL for oslo.messaging."""
        return f"rabbit://{user}@127.0.0.1:{self.port}/{VHOST}"

    def options(self, user: str) -> Mapping[str, str]:
        """Return ``[oslo_messaging_rabbit]`` of a user."""
        if user not in self._certificates:
            cert, key = self.authority.certificate(user)
            self._certificates[user] = {
                "ssl": "true",
                "ssl_ca_file": str(self.authority.ca),
                "ssl_cert_file": str(cert),
                "ssl_key_file": str(key),
                "rabbit_login_method": "EXTERNAL",
            }
        return self._certificates[user]

    def connection(self, user: str, **tls: Any) -> amqp.Connection:
        """Return a connection of a user, which is not open yet. :param tls: other options."""
        options = self.options(user)
        files = {"certfile": options["ssl_cert_file"], "keyfile": options["ssl_key_file"]}
        checked = {"ca_certs": options["ssl_ca_file"], "cert_reqs": ssl.CERT_REQUIRED}
        return amqp.Connection(
            f"127.0.0.1:{self.port}",
            virtual_host=VHOST,
            login_method="EXTERNAL",
            ssl={**files, **checked, "server_hostname": "127.0.0.1", **tls},
            connect_timeout=60,
            read_timeout=120,
        )
