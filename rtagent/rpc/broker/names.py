"""The names of exchanges and queues at RabbitMQ, as oslo.messaging makes them."""

import re
import uuid

import oslo_messaging

from rtagent.rpc import AGENT

#: The exchange through which every message reaches a queue by its name; in permissions.
DEFAULT_EXCHANGE = "amq.default"
#: The end of the names that contain a random uuid, as a regular expression.
RANDOM = "[0-9a-f]{32}"

#: The users whose names can be a part of the names of queues and of regular expressions.
_USER = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")


def fanout_exchange(topic: str) -> str:
    """Return the exchange of messages to all servers of a topic."""
    return f"{topic}_fanout"


def lock_queue(host: str) -> str:
    """Return the queue that only one agent of a host name has.

    It is not of the form "TOPIC.HOST", which could be the queue of another host.
    """
    return f"{AGENT}_lock.{host}"


def reply_prefix(user: str) -> str:
    """Return how the names of the reply queues of a user begin."""
    return f"reply_{user}_"


def reply_queue(user: str) -> str:
    """Return the name of a new reply queue of a user.

    Every server that gets a call gets this name. With the user in it, the permissions of RabbitMQ
    can keep other users from reading the queue.
    """
    return reply_prefix(user) + uuid.uuid4().hex


def can_name(user: str) -> bool:
    """Return whether the name of a user can be a part of those of queues."""
    return bool(_USER.match(user))


def is_rabbitmq(url: oslo_messaging.TransportURL) -> bool:
    """Return whether the broker of a URL is RabbitMQ."""
    return url.transport in ("rabbit", "kombu")
