"""A connection to RabbitMQ without oslo.messaging, with the same options."""

from __future__ import annotations

import random
import ssl
from typing import Any

import amqp
import oslo_messaging
from oslo_config import cfg

from rtagent.rpc.amqp_frames import harmless_frames
from rtagent.rpc.broker.names import is_rabbitmq

#: Seconds for a connection, and for each answer of the broker.
TIMEOUT = 5.0
#: The errors of a connection.
BROKEN = (amqp.AMQPError, OSError)


class Broker:
    """Opens connections to one of the brokers of a URL. :ivar exchange: of all calls."""

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL) -> None:
        """:param conf: that of a transport, in which ``?ssl=1`` in its URL counts."""
        self._options = conf.oslo_messaging_rabbit
        self._url, self.exchange = url, str(conf.control_exchange)

    def control_exchange(self, channel: amqp.Channel) -> str:
        """Return the exchange of all calls, which is declared unless it exists.

        :raises ChannelError: the broker refuses that.
        """
        try:
            channel.exchange_declare(self.exchange, "topic", passive=True)
        except amqp.NotFound:
            options = self._options
            durable = options.amqp_durable_queues or options.rabbit_quorum_queue
            kept = {"durable": durable, "auto_delete": options.amqp_auto_delete}
            channel.exchange_declare(self.exchange, "topic", **kept)
        return self.exchange

    @property
    def user(self) -> str:
        """The user of the URL. With EXTERNAL, it should be that of the certificate."""
        return next((host.username for host in self._hosts if host.username), "guest")

    def connect(self, name: str, heartbeat: int = 0) -> amqp.Connection:
        """Connect to one of the brokers.

        :param name: of the connection, for operators. :param heartbeat: seconds; 0: none.
        :raises AMQPError: OSError: of the last one.
        """
        *others, last = random.sample(self._hosts, len(self._hosts))
        for host in others:
            try:
                return self._connect_to(host, name, heartbeat)
            except BROKEN:
                pass
        return self._connect_to(last, name, heartbeat)

    @property
    def _hosts(self) -> list[oslo_messaging.TransportHost]:
        return self._url.hosts or [oslo_messaging.TransportHost("localhost")]

    def _connect_to(
        self, host: oslo_messaging.TransportHost, name: str, heartbeat: int
    ) -> amqp.Connection:
        address = f"[{host.hostname}]" if ":" in host.hostname else host.hostname
        connection = amqp.Connection(
            host=f"{address}:{host.port or 5672}",
            userid=host.username or "guest",
            password=host.password or "guest",
            virtual_host=self._url.virtual_host or "/",
            login_method=self._options.rabbit_login_method,
            ssl=self._tls(host),
            connect_timeout=TIMEOUT,
            read_timeout=TIMEOUT,
            write_timeout=TIMEOUT,
            heartbeat=heartbeat,
            client_properties={"connection_name": name},
            frame_handler=harmless_frames,
        )
        try:
            connection.connect()
        except BaseException:
            connection.collect()
            raise
        return connection

    def _tls(self, host: oslo_messaging.TransportHost) -> dict[str, Any] | bool:
        """The options of TLS, with oslo.messaging's meaning. ``ssl_version`` is negotiated."""
        options = self._options
        if not options.ssl:
            return False
        tls: dict[str, Any] = {}
        if options.ssl_key_file:
            tls["keyfile"] = options.ssl_key_file
        if options.ssl_cert_file:
            tls["certfile"] = options.ssl_cert_file
        if options.ssl_ca_file:
            tls |= {"ca_certs": options.ssl_ca_file, "cert_reqs": ssl.CERT_REQUIRED}
            tls["server_hostname"] = host.hostname
        return tls or True


def broker_of(transport: oslo_messaging.RPCTransport) -> Broker | None:
    """Return the broker of the configuration of a transport; None: it is not RabbitMQ."""
    url = oslo_messaging.TransportURL.parse(transport.conf)
    return Broker(transport.conf, url) if is_rabbitmq(url) else None
