"""The controller: database, broker, and the APIs and workers of all services but Nova's compute."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from devcloud import configs, contents
from devcloud.hosts import CloudError, Host, write_files
from devcloud.places import ADDRESS, BIN, CONTROLLER, HERE, KEPT, LINK, MAKES_TABLES

#: The WSGI module of each API, its port, the arguments and the variables of the service.
_APIS: dict[str, tuple[str, int, Sequence[str], dict[str, str]]] = {
    "keystone": (
        "keystone.wsgi.api",
        5000,
        (),
        {"OS_KEYSTONE_CONFIG_FILES": "/etc/keystone/keystone.conf"},
    ),
    "glance": ("glance.wsgi.api", 9292, (), {"OS_GLANCE_CONFIG_DIR": "/etc/glance"}),
    "placement": ("placement.wsgi.api", 8778, (), {"OS_PLACEMENT_CONFIG_DIR": "/etc/placement"}),
    "neutron": (
        "neutron.wsgi.api",
        9696,
        ("--config-file", "/etc/neutron/neutron.conf"),
        {},
    ),
    "cinder": ("cinder.wsgi.api", 8776, ("--config-file", "/etc/cinder/cinder.conf"), {}),
    "nova": (
        "nova.wsgi.osapi_compute",
        8774,
        (),
        {"OS_NOVA_CONFIG_DIR": "/etc/nova"},
    ),
}
_WORKERS = {
    "nova-conductor": "/etc/nova/nova.conf",
    "nova-scheduler": "/etc/nova/nova.conf",
    "neutron-rpc-server": "/etc/neutron/neutron.conf",
    "cinder-scheduler": "/etc/cinder/cinder.conf",
    "cinder-volume": "/etc/cinder/cinder.conf",
}
_DATABASES = (
    "cinder",
    "keystone",
    "glance",
    "placement",
    "neutron",
    "nova_api",
    "nova_cell0",
    "nova_cell1",
)


class Controller(Host):
    """:ivar password: of the administrator and of all services."""

    def __init__(self, password: str) -> None:
        super().__init__(CONTROLLER)
        self.password = password
        # Written when the tables and the accounts are made: by what.
        self._complete = self.directory / "var/lib/complete"

    def start(self, say: Callable[[str], None]) -> None:
        """Start everything. :param say: shows what is done."""
        if not self._complete.exists():
            # Nothing, or what a first start that was interrupted has left.
            self.power_off()
            shutil.rmtree(self.directory, ignore_errors=True)
        elif self._complete.read_text() != _version():
            raise CloudError("the data are those of another version: tools/openstack down --delete")
        if not self.is_on:
            self._power_on()
        say("MariaDB, RabbitMQ, memcached")
        self._start_servers()
        if not self._complete.exists():
            say("the tables of six services (once)")
            self._make_tables()
            self._start_apis("keystone")
            say("users, roles and endpoints (once)")
            contents.make_accounts(contents.connect(self.password), self.password)
            self._keep()
        say("Keystone, Glance, Placement, Neutron, Cinder, Nova")
        self._start_apis(*_APIS)
        for name, file in _WORKERS.items():
            self.daemon(name, name, "--config-file", file)

    def _power_on(self) -> None:
        kept = KEPT / self._complete.name
        if not self.directory.exists() and kept.exists() and kept.read_text() == _version():
            (self.directory / "var").mkdir(parents=True)
            subprocess.run(["cp", "-a", KEPT, self.directory / "var/lib"], check=True)
        self.make()
        write_files(self.directory, configs.controller(self.password))
        shutil.copy(BIN.parent / "etc/glance/glance-api-paste.ini", self.directory / "etc/glance")
        shutil.copy(BIN.parent / "etc/cinder/resource_filters.json", self.directory / "etc/cinder")
        for name in ("nova", "neutron", "cinder"):
            shutil.copy(BIN.parent / f"etc/{name}/api-paste.ini", self.directory / f"etc/{name}")
        for name in ("keystone", "glance/images", "nova", "neutron", "cinder", "rabbitmq"):
            (self.directory / "var/lib" / name).mkdir(parents=True, exist_ok=True)
        self.power_on()
        self.run("ip", "link", "add", "br0", "type", "bridge")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "br0")
        self.run("ip", "link", "set", "br0", "up")
        self.connect_machine()

    def _start_servers(self) -> None:
        if not (self.directory / "var/lib/mysql").exists():
            self.run(
                "mariadb-install-db",
                "--no-defaults",
                "--user=mysql",
                "--datadir=/var/lib/mysql",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            )
        self._start_database()
        self.daemon("memcached", "memcached", "-u", "root", "-l", "127.0.0.1", "-m", "64")
        self.daemon(
            "rabbitmq",
            "/usr/lib/rabbitmq/bin/rabbitmq-server",
            env={
                "HOME": "/var/lib/rabbitmq",
                "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                "RABBITMQ_CONFIG_FILE": "/etc/rabbitmq/rabbitmq.conf",
                "RABBITMQ_ENABLED_PLUGINS_FILE": "/etc/rabbitmq/enabled_plugins",
                "RABBITMQ_LOG_BASE": "/var/log/rabbitmq",
                "RABBITMQ_MNESIA_BASE": "/var/lib/rabbitmq/mnesia",
                "RABBITMQ_NODENAME": "rabbit@localhost",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                    "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
                ),
                "RUNNING_UNDER_SYSTEMD": "1",
            },
        )
        self.wait_port("mariadb", 3306, "127.0.0.1")
        self.wait_port("memcached", 11211, "127.0.0.1")
        self.wait_port("rabbitmq", 5672)

    def _start_database(self) -> None:
        # Only this host's loopback leads to it, so it asks for no password. The data of a cloud for
        # trying things out are not worth a wait for the disk.
        self.daemon(
            "mariadb",
            "mariadbd",
            "--no-defaults",
            "--user=mysql",
            "--datadir=/var/lib/mysql",
            "--socket=/run/mysqld.sock",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-grant-tables",
            "--max-connections=500",
            "--character-set-server=utf8mb4",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=256M",
        )

    def power_off(self) -> None:
        """Also remove the cable to this machine, which the kernel may keep for minutes."""
        if self.is_on:
            super().power_off()
            cable = ["ip", "link", "delete", LINK]
            subprocess.run(cable, check=False, capture_output=True)

    def query(self, sql: str) -> str:
        """Run statements of SQL, and return the rows, with tabs."""
        return self.run("mariadb", "--no-defaults", "-S", "/run/mysqld.sock", "-NBre", sql)

    def _make_tables(self) -> None:
        self.query("".join(f"CREATE DATABASE IF NOT EXISTS {name};" for name in _DATABASES))
        keystone = ("keystone-manage", "--config-file", "/etc/keystone/keystone.conf")
        neutron = ("neutron-db-manage", "--config-file", "/etc/neutron/neutron.conf")
        nova = ("nova-manage", "--config-file", "/etc/nova/nova.conf")
        placement = ("placement-manage", "--config-file", "/etc/placement/placement.conf")
        root = ("--keystone-user", "root", "--keystone-group", "root")
        url = f"{configs.API}:5000/v3"
        urls = [f"--bootstrap-{kind}-url={url}" for kind in ("admin", "internal", "public")]
        account = ("--bootstrap-password", self.password, "--bootstrap-region-id", "RegionOne")
        cell0 = ("--database_connection", configs.database("nova_cell0"))
        lanes: list[list[tuple[str, ...]]] = [
            [
                (*neutron, "upgrade", "head"),
            ],
            [
                (*nova, "api_db", "sync"),
                (*nova, "cell_v2", "map_cell0", *cell0),
                (*nova, "db", "sync"),
                (*nova, "cell_v2", "create_cell", "--name", "cell1"),
            ],
            [
                (*keystone, "db_sync"),
                (*keystone, "fernet_setup", *root),
                (*keystone, "credential_setup", *root),
                (*keystone, "bootstrap", *account, *urls),
                ("glance-manage", "--config-file", "/etc/glance/glance-api.conf", "db_sync"),
                ("cinder-manage", "--config-file", "/etc/cinder/cinder.conf", "db", "sync"),
                (*placement, "db", "sync"),
            ],
        ]
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._run_all, lanes))

    def _run_all(self, commands: Sequence[Sequence[str]]) -> None:
        for command in commands:
            self.run(*command)

    def _start_apis(self, *names: str) -> None:
        for name in names:
            module, port, arguments, env = _APIS[name]
            serve = (str(BIN / "python"), str(HERE / "serve.py"), module, str(port), *arguments)
            self.daemon(f"{name}-api", *serve, env=env)
        for name in names:
            self.wait_port(f"{name}-api", _APIS[name][1])

    def _keep(self) -> None:
        """Keep the data for the next cloud."""
        self._complete.write_text(_version())
        self.stop("mariadb", 15)
        new = KEPT.with_suffix(".new")
        for directory in (new, KEPT):
            shutil.rmtree(directory, ignore_errors=True)
        subprocess.run(["cp", "-a", self.directory / "var/lib", new], check=True)
        shutil.rmtree(new / "rabbitmq")
        new.rename(KEPT)
        self._start_database()
        self.wait_port("mariadb", 3306, "127.0.0.1")


def _version() -> str:
    """Return by what the tables and the accounts are recognised. They name the addresses."""
    parts = [repr(ADDRESS).encode(), *(file.read_bytes() for file in MAKES_TABLES)]
    return hashlib.sha256(b"".join(parts)).hexdigest()
