"""A libvirt daemon with QEMU, separate from the one that this machine may run."""

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import libvirt
import psutil

from tests.servers.server import Server, free_port

# The paths that libvirt uses. In a separate mount namespace each is replaced by one of ours. These
# are the parents of libvirt's own directories, because the parents exist on every machine.
_PLACES = {
    "etc": "/etc/libvirt",
    "run": "/run",
    "lib": "/var/lib",
    "cache": "/var/cache",
    "log.d": "/var/log",
    "passwd": "/etc/passwd",
    "group": "/etc/group",
}

# The driver looks up its compiled-in account before it reads the configuration, which makes it run
# domains as root. The package that would add the account also installs the system's own service.
ACCOUNT = {
    "passwd": "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin\n",
    "group": "libvirt-qemu:x:64055:\n",
}

_LIBVIRTD_CONF = """\
unix_sock_dir = "{directory}"
unix_sock_rw_perms = "0777"
auth_unix_ro = "none"
auth_unix_rw = "none"
"""

# Without system bus, control groups and helper daemons a domain starts at once; with the defaults
# libvirt waits for each of them.
QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
"""

_DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>{memory_mb}</memory>
  <vcpu>{vcpus}</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    # A domain that is destroyed while a restarted daemon reconnects to it disappears before the
    # call that destroys it is executed.
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise


def domain_xml(name: str, uuid: str, vcpus: int, memory_mb: int) -> str:
    """Return a domain without disks, network and display, emulated in software; memory in MiB."""
    return _DOMAIN.format(name=name, uuid=uuid, vcpus=vcpus, memory_mb=memory_mb)


class Libvirtd(Server):
    """Domains survive `stop()`, as on a real host, but not `close()`. :ivar uri: to connect to."""

    name = "libvirtd"

    @property
    def uri(self) -> str:
        return f"qemu:///system?socket={self.directory}/libvirt-sock"

    def prepare(self) -> None:
        for name, place in _PLACES.items():
            ours = self.directory / name
            if name in ACCOUNT:
                ours.write_text(Path(place).read_text() + ACCOUNT[name])
            else:
                ours.mkdir()
        etc = self.directory / "etc"
        (etc / "libvirtd.conf").write_text(_LIBVIRTD_CONF.format(directory=self.directory))
        (etc / "qemu.conf").write_text(QEMU_CONF)

    def command(self) -> Sequence[str]:
        binds = [f"mount --bind '{self.directory}/{name}' {to}" for name, to in _PLACES.items()]
        script = " && ".join([*binds, "exec libvirtd --config /etc/libvirt/libvirtd.conf"])
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]

    def environment(self) -> Mapping[str, str]:
        return {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}

    def answers(self) -> bool:
        # Checked first, because libvirt's client not only raises a failure, but also prints it.
        if not self._listens():
            return False
        try:
            libvirt.open(self.uri).close()
        except libvirt.libvirtError:
            return False
        return True

    def clear(self) -> None:
        """Destroy and undefine every domain."""
        connection = libvirt.open(self.uri)
        try:
            for domain in connection.listAllDomains():
                with _ignore_missing():
                    persistent = domain.isPersistent()
                    if domain.isActive():
                        domain.destroy()
                    if persistent:
                        domain.undefine()
        finally:
            connection.close()

    def cut_power(self) -> None:
        """End the daemon and all domains at once."""
        self.kill()
        self._end_domains()

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.directory / "libvirt-sock")) == 0

    def close(self) -> None:
        self.stop()
        self._end_domains()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end_domains(self) -> None:
        domains = []
        for file in (self.directory / "run/libvirt/qemu").glob("*.pid"):
            with contextlib.suppress(psutil.NoSuchProcess, ValueError):
                domains.append(psutil.Process(int(file.read_text())))
        for domain in domains:
            if domain.name().startswith("qemu-system"):
                os.kill(domain.pid, signal.SIGKILL)
        psutil.wait_procs(domains, 10)


class MigratingLibvirtd(Libvirtd):
    """One of several hosts on this machine, between which domains migrate.

    :param hostname: libvirt requires that it differs.
    :param address: of this machine, but not 127.0.0.1, which libvirt refuses.
    :ivar peer_uri: the URI at which other hosts reach it.
    """

    def __init__(self, hostname: str, address: str) -> None:
        super().__init__()
        self._hostname, self._address, self._port = hostname, address, free_port()
        self.peer_uri = f"qemu+tcp://{address}:{self._port}/system"

    def prepare(self) -> None:
        super().prepare()
        with (self.directory / "etc" / "libvirtd.conf").open("a") as file:
            file.write('listen_tls = 0\nlisten_tcp = 1\nauth_tcp = "none"\n')
            file.write(f'tcp_port = "{self._port}"\nlisten_addr = "{self._address}"\n')
            file.write(f'host_uuid = "{uuid4()}"\n')
        with (self.directory / "etc" / "qemu.conf").open("a") as file:
            file.write(f'migration_host = "{self._address}"\n')

    def command(self) -> Sequence[str]:
        unshare, *options, script = super().command()
        script = f"hostname {self._hostname} && {script} --listen"
        return [unshare, "--uts", *options, script]
