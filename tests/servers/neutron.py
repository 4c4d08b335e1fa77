"""OpenStack Neutron over HTTP, in the virtual environment that has Nova."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.server import Server, accepts, free_port

#: The release of Nova, which ``tools/test --release`` sets.
RELEASE = os.environ.get("NOVA_RELEASE", "34")
_NAME = ".venv-nova" if RELEASE == "34" else f".venv-nova-{RELEASE}"
ENVIRONMENT = Path(__file__).resolve().parents[2] / _NAME

_CONF = """\
[DEFAULT]
auth_strategy = noauth
core_plugin = ml2
service_plugins =
transport_url = fake://
state_path = {directory}
api_paste_config = {environment}/etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers =
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}/locks
"""


class Neutron(Server):
    """Neutron without agents, so that no port is bound. Every token has all rights.

    :param database: the URL of an empty database of MariaDB: Neutron cannot create its tables in
        SQLite.
    """

    name = "neutron"

    def __init__(self, database: str) -> None:
        super().__init__()
        self._database, self.port = database, free_port()
        self._config = self.directory / "neutron.conf"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self._config.write_text(
            _CONF.format(directory=self.directory, environment=ENVIRONMENT, database=self._database)
        )
        manage = str(ENVIRONMENT / "bin/neutron-db-manage")
        self.run(manage, "--config-file", str(self._config), "upgrade", "head")

    def command(self) -> Sequence[str]:
        return [
            str(ENVIRONMENT / "bin/python"),
            "-P",  # or else neutron.py of this directory would be imported as `neutron`
            str(Path(__file__).with_name("neutron_app.py")),
            str(self.port),
            str(self._config),
        ]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONWARNINGS": "ignore"}

    def answers(self) -> bool:
        return accepts(self.port)
