"""The names of exchanges and queues at RabbitMQ, as oslo.messaging makes them."""

from __future__ import annotations

import re
import uuid
from functools import partial

import oslo_messaging
from oslo_messaging._drivers.impl_rabbit import RabbitDriver

from rtagent.rpc.topics import AGENT

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


def name_reply_queue(transport: oslo_messaging.Transport) -> None:
    """Let the name of a transport's reply queue begin with the user of the transport's URL.

    Every server that gets a call gets the name of the reply queue. With the user in the name, the
    permissions of RabbitMQ can keep other users from reading it.
    """
    driver = transport._driver
    if not isinstance(driver, RabbitDriver) or driver._q_manager is not None:
        return
    user = next((host.username for host in driver._url.hosts), None) or ""
    if _USER.match(user):
        driver._get_reply_queue_name = partial(_unique, reply_prefix(user))


def _unique(prefix: str) -> str:
    return prefix + uuid.uuid4().hex
