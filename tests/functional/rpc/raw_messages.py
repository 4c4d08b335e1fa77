"""Messages that `AgentAPI` would not send, published byte by byte."""

import json
from typing import Any, Self

import amqp

from tests.support.hosts import uid

#: The exchange of the agents' queues, as oslo.messaging names it.
EXCHANGE = "openstack"
JSON = {"content_type": "application/json", "content_encoding": "utf-8"}


class RawProperties(amqp.Message):
    """A message whose properties are given as the bytes of their AMQP form."""

    def __init__(self, body: bytes, properties: bytes) -> None:
        super().__init__(body)
        self._raw = properties

    def _serialize_properties(self) -> bytes:
        return self._raw


class RawSender:
    """Publishes to the queue of one host.

    :ivar channel: of AMQP.
    """

    def __init__(self, port: int, host: str) -> None:
        self.queue = f"rtagent.{host}"
        self._connection = amqp.Connection(f"127.0.0.1:{port}")

    def __enter__(self) -> Self:
        self._connection.connect()
        self.channel = self._connection.channel()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def send(
        self, body: str | bytes, properties: dict[str, Any] | bytes | None = None, **where: Any
    ) -> None:
        """Publish a body as it is.

        :param properties: by name, or their bytes; None: those of oslo.messaging.
        :param where: exchange and routing_key, if not those of the host's queue.
        """
        body = body.encode() if isinstance(body, str) else body
        message = (
            RawProperties(body, properties)
            if isinstance(properties, bytes)
            else amqp.Message(body, **(JSON if properties is None else properties))
        )
        target = {"exchange": EXCHANGE, "routing_key": self.queue, **where}
        self.channel.basic_publish(message, **target)

    def request(self, **fields: Any) -> None:
        """Publish a request in a valid envelope."""
        self.send(envelope(json.dumps(request(**fields))))


def request(method: str = "ping", **fields: Any) -> dict[str, Any]:
    """The fields of a request without an answer."""
    return {"method": method, "version": "1.0", "args": {}, "_unique_id": uid(), **fields}


def reply_to(queue: str, **fields: Any) -> dict[str, Any]:
    """The fields that ask for an answer."""
    return {"_msg_id": uid(), "_reply_q": queue, **fields}


def envelope(message: str, **fields: Any) -> str:
    """The envelope of oslo.messaging around the text of a message."""
    return json.dumps({"oslo.version": "2.0", "oslo.message": message, **fields})
