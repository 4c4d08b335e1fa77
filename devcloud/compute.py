"""A compute host: Open vSwitch, libvirt with QEMU, ssh, and Nova's service, stock or rtagent's."""

from __future__ import annotations

import shutil
import subprocess
import uuid

from devcloud import configs
from devcloud.controller import Controller
from devcloud.hosts import Host, Process, free_port, write_files
from devcloud.places import CLOUD
from tests.servers.libvirtd import ACCOUNT

#: The program of Nova's service of a compute host.
PROGRAMS = {"stock": "nova-compute", "rtagent": "rtagent-nova-compute"}
#: Of rtagent, on a host.
SOCKET = "/var/lib/nova/rtagent/rtagent.sock"


class Compute(Host):
    """A compute host, which can lose its power.

    :ivar driver: of Nova, set before the host is made.
    """

    driver = "libvirt.LibvirtDriver"

    def start(self, controller: Controller) -> None:
        """Start everything but Nova's service."""
        if not self.is_on:
            self._power_on(controller)
        database = "/var/lib/openvswitch/conf.db"
        if not (self.directory / database[1:]).exists():
            (self.directory / "var/lib/openvswitch").mkdir()
            schema = "/usr/share/openvswitch/vswitch.ovsschema"
            self.run("ovsdb-tool", "create", database, schema)
        remotes = ("--remote=punix:/run/openvswitch/db.sock", "--remote=ptcp:6640:127.0.0.1")
        self.daemon("ovsdb", "ovsdb-server", database, *remotes, "--pidfile")
        self.wait_port("ovsdb", 6640, "127.0.0.1")
        self.run("ovs-vsctl", "--no-wait", "init")
        switch = ("ovs-vswitchd", "unix:/run/openvswitch/db.sock", "--pidfile")
        self.daemon("vswitchd", *switch)
        self.daemon("sshd", "/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config")
        self.daemon("libvirtd", "libvirtd", "--listen", "--config", "/etc/libvirt/libvirtd.conf")
        files = ("/etc/neutron/neutron.conf", "/etc/neutron/openvswitch_agent.conf")
        arguments = [word for file in files for word in ("--config-file", file)]
        self.daemon("ovs-agent", "neutron-openvswitch-agent", *arguments)
        self.wait_port("libvirtd", 16509)

    def _power_on(self, controller: Controller) -> None:
        self.make()
        identity = self.directory / "uuid"
        if not identity.exists():
            identity.write_text(str(uuid.uuid4()))
        files = configs.compute(self.name, controller.password, identity.read_text(), self.driver)
        write_files(self.directory, files)
        _copy_keys(self)
        etc = self.directory / "etc"
        for file, line in ACCOUNT.items():
            text = (etc / file).read_text()
            if "\nlibvirt-qemu:" not in text:
                (etc / file).write_text(text + line)
        (self.directory / "var/lib/nova/instances").mkdir(parents=True, exist_ok=True)
        self.power_on()
        controller.connect(self)

    def set_program(self, kind: str) -> None:
        """Start Nova's service, in the place of the one that runs.

        :param kind: of `PROGRAMS`.
        """
        chosen = self.directory / "program"
        if self.is_running("nova-compute"):
            if chosen.read_text() == kind:
                return
            # On SIGTERM it would wait for minutes.
            self.stop("nova-compute", 9)
        chosen.write_text(kind)
        self.start_program()

    @property
    def program(self) -> str:
        """Nova's service that was chosen last, a key of `PROGRAMS`."""
        file = self.directory / "program"
        return file.read_text() if file.exists() else "rtagent"

    def start_program(self) -> None:
        """Start Nova's service that was chosen last."""
        self.daemon("nova-compute", PROGRAMS[self.program], "--config-file", "/etc/nova/nova.conf")

    def page(self) -> str:
        """Return where a browser on this machine sees the pages of rtagent."""
        relay = Process(self.directory / "relay.pid")
        port_file = self.directory / "relay.port"
        if relay.pid is None:
            port_file.write_text(str(free_port()))
            listen = f"TCP-LISTEN:{port_file.read_text()},bind=127.0.0.1,reuseaddr,fork"
            # Its path goes through the host's process 1, so the relay ends with the host's power.
            socat = ["socat", listen, f"UNIX-CONNECT:{self.path(SOCKET)}"]
            relay.remember(self.spawn(socat, self.log("relay")))
        return f"http://127.0.0.1:{port_file.read_text()}/"

    def power_off(self) -> None:
        """Also end the relay of `page`."""
        super().power_off()
        Process(self.directory / "relay.pid").end(15, f"relay of {self.name}")


def _copy_keys(host: Host) -> None:
    """Give a host the keys with which Nova copies disks between hosts."""
    keys = CLOUD / "ssh"
    if not keys.exists():
        new = CLOUD / "ssh.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        for name in ("cloud", "cloud-host"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(new / name)]
            subprocess.run(make, check=True)
        new.rename(keys)
    for file in keys.iterdir():
        shutil.copy2(file, host.directory / "etc/ssh")
