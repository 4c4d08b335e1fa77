"""A lab host with rtagent-nova-compute: Nova's libvirt driver, and an SR-IOV device."""

import contextlib
import json
from pathlib import Path

import libvirt

from lab import agent, machine
from lab.channel import ChannelError
from lab.host import CommandFailed, Host
from lab.image import Image
from lab.machine import NVME
from lab.nova_environment import MOUNTED
from lab.places import CONSOLES
from lab.profile import Profile
from tests.lab.nova_look import Look, look
from tests.lab.test_enactment import threads
from tests.nova.compute_host import PATIENCE, documents
from tests.nova.control_plane import IMAGE, Endpoints, cached
from tests.servers import Neutron, Placement, RabbitMQ
from tests.servers.daemon import wait_until

#: Small: it has CPUs and devices for two servers, or for one that is resized. With one cell, the
#: device is close to none.
PROFILE = Profile(cores=3, cell_memory_mb=2048, cell_pages=0, virtual_functions=2)
PINNED_CPUS = [1, 2]
FUNCTIONS = ["0000:81:00.1", "0000:81:00.2"]
#: The alias of the virtual functions, as all of Nova's programs know it.
ALIAS = f"""
[pci]
alias = {json.dumps({"name": "nvme", "device_type": "type-VF", **NVME})}
"""

STATE, CONFIG, UNIT = "/var/lib/nova", "/etc/nova/nova.conf", "nova-compute"
SOCKET = f"{STATE}/rtagent/rtagent.sock"
#: Seconds between two looks at a host, each of which takes time on it.
PAUSE = 2.0

# After a boot, the device is there when its driver is.
_SERVICE = f"""\
[Unit]
Wants=network-online.target
After=network-online.target libvirtd.service

[Service]
Environment=HOME=/root PYTHONWARNINGS=ignore
ExecStartPre=sh -c 'mountpoint -q {MOUNTED} || mount -o ro /dev/vdb {MOUNTED}'
ExecStartPre=sh -c 'until echo 2 >/sys/bus/pci/devices/0000:81:00.0/sriov_numvfs; do sleep 1; done'
ExecStart={MOUNTED}/bin/rtagent-nova-compute --config-file {CONFIG}
TimeoutStartSec=300
TimeoutStopSec=5
"""

# The power may be cut after this.
_INSTALL = f"""
set -e
systemctl disable --quiet --now rtagent
mkdir -p {MOUNTED} {STATE}/instances/_base
head -c 1048576 /dev/zero >{STATE}/instances/_base/{cached(IMAGE)}
systemctl daemon-reload
sync
"""

_KILL = f"""
systemctl kill --signal=KILL {UNIT}
while systemctl is-active --quiet {UNIT}; do sleep 0.2; done
"""


def _options(host: str) -> str:
    """Return the options of the host. Everything takes long on it, so periodic tasks that no test
    is about are off.
    """
    privsep = f"helper_command = {MOUNTED}/bin/privsep-helper --config-file {CONFIG}"
    return f"""
[DEFAULT]
host = {host}
state_path = {STATE}
report_interval = 10
update_resources_interval = 15
heal_instance_info_cache_interval = -1
sync_power_state_interval = -1
rpc_response_timeout = 300
[compute]
cpu_shared_set = 0
cpu_dedicated_set = 1-2
{ALIAS}
device_spec = {json.dumps(NVME)}
[nova_sys_admin]
{privsep}
[privsep_osbrick]
{privsep}
"""


class NovaHost:
    """A lab host that nova-compute serves.

    :ivar host: the machine. :ivar name: of the host, for Nova.
    """

    def __init__(
        self,
        name: str,
        image: Image,
        disk: Path,
        rabbitmq: RabbitMQ,
        placement: Placement,
        neutron: Neutron,
    ) -> None:
        """:param disk: with Nova's environment."""
        servers = {machine.PLACEMENT: placement.port, machine.NEUTRON: neutron.port}
        self.host = Host(name, PROFILE, image, rabbitmq.port, {}, servers, [disk])
        self.name = name
        self.uri = f"qemu+tcp://127.0.0.1:{self.host.libvirt_port}/system"

    # -- the service ------------------------------------------------------------------------------

    def install(self) -> None:
        """Prepare a host that was launched, once it has booted."""
        self.host.wait_answers()
        self.host.open_libvirt()
        endpoints = Endpoints(
            transport_url=f"rabbit://guest:guest@{machine.BROKER}/",
            placement=f"http://{machine.PLACEMENT}",
            neutron=f"http://{machine.NEUTRON}",
        )
        config = endpoints.options(STATE) + _options(self.name)
        unit = f"/etc/systemd/system/{UNIT}.service"
        for path, contents in ((CONFIG, config), (unit, _SERVICE)):
            self.host.output("install", "-D", "-m", "644", "/dev/stdin", path, given=contents)
        self.host.output("sh", "-c", _INSTALL)

    def start(self) -> None:
        """Boot the host if it is off, start nova-compute, and wait until its node is observed."""
        self.host.start()
        self.host.output("systemctl", "start", UNIT)
        wait_until(self._is_observed, PATIENCE, PAUSE)
        # Nova does not see to it that its own files are on the disk.
        self.host.output("sync")

    def kill(self) -> None:
        """Kill nova-compute, at once."""
        self.host.output("sh", "-c", _KILL)

    def close(self) -> None:
        """Power off. The log of nova-compute stays beside that of the console."""
        if self.host.running:
            with contextlib.suppress(ChannelError, TimeoutError):  # it did not boot
                self._save_log()
        self.host.close()

    def _save_log(self) -> None:
        log = self.host.execute("journalctl", "--no-pager", "--output=cat", f"--unit={UNIT}")
        (CONSOLES / f"{self.name}-{UNIT}.log").write_text(log.stdout)

    def _is_observed(self) -> bool:
        """Whether the node is served, and its domains were compared with its claims."""
        try:
            return "domains" in json.loads(agent.get(self.host, "/health", SOCKET))["checks"]
        except CommandFailed:
            return False

    # -- what there is ----------------------------------------------------------------------------

    def look(self) -> Look:
        """Return what there is at this moment. :raises CommandFailed: the node is not served."""
        return look(self.host, SOCKET, self.uri, FUNCTIONS)

    def vcpu_affinity(self, uuid: str) -> frozenset[int]:
        """Return the CPUs on which Linux lets the vCPU of a server run."""
        name = documents(self.uri)[uuid].findtext("name") or ""
        return threads(self.host, name)["CPU 0/TCG"]

    def suspend_domains(self) -> None:
        """Let the vCPUs of all domains stand still: a firmware that finds nothing to boot takes
        all time.
        """
        connection = libvirt.open(self.uri)
        try:
            for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING):
                domain.suspend()
        finally:
            connection.close()
