"""Real servers, each private: a free loopback port, a directory of its own, nothing left behind.

    with PostgreSQL() as server:
        url = server.create_database()

`stop()`, `kill()` and `start()` keep port and data, so that an outage can be played;
`freeze()` and `thaw()` play a server that hangs. Should the program that started a server die
without closing it, the server is stopped and its directory removed all the same.
"""

from tests.servers.libvirtd import Libvirtd, domain_xml
from tests.servers.mariadb import MariaDB
from tests.servers.placement import Placement
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.server import Server, ServerFailed

__all__ = [
    "Libvirtd",
    "MariaDB",
    "Placement",
    "PostgreSQL",
    "RabbitMQ",
    "Server",
    "ServerFailed",
    "domain_xml",
]
