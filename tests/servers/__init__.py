"""Real servers for tests, each with a free loopback port and a directory of its own.

    with PostgreSQL() as server:
        url = server.create_database()

`stop()`, `kill()` and `start()` keep the port and the data, so that a test can simulate an outage;
`freeze()` and `thaw()` simulate a server that hangs. If the program that started a server dies
without closing it, the server is still stopped and its directory removed.
"""

from tests.servers.libvirtd import Libvirtd, domain_xml
from tests.servers.mariadb import MariaDB
from tests.servers.neutron import Neutron
from tests.servers.placement import Placement
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.server import Server, ServerFailed

__all__ = [
    "Libvirtd",
    "MariaDB",
    "Neutron",
    "Placement",
    "PostgreSQL",
    "RabbitMQ",
    "Server",
    "ServerFailed",
    "domain_xml",
]
