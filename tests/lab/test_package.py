"""The Debian package on a whole host: installed, upgraded while it serves, removed and purged."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lab import image
from lab.places import LAB, ROOT
from lab.profile import PROFILES
from rtagent import __version__
from tests.lab.rack import CONTEXT, PATIENCE, Served, wait_until
from tests.servers import RabbitMQ
from tests.support.hosts import uid

STATE = "/var/lib/rtagent"
#: What lab hosts have of an agent, but for its configuration.
_REMOVE_WHEEL = f"""
systemctl disable --now rtagent
rm -rf /opt/rtagent /usr/bin/rtagent /usr/bin/rtagentd /etc/systemd/system/rtagent.service
rm -rf /usr/lib/sysusers.d/rtagent.conf /usr/lib/tmpfiles.d/rtagent.conf {STATE} /run/rtagent
userdel rtagent
systemctl daemon-reload
"""
#: dpkg compares versions only with its own record.
_OLDER = "/^Package: rtagent$/,/^$/s/^Version: .*/Version: 0.1.9/"


class HostWithPackage(Served):
    """A lab host with a package as its second disk."""

    package: Path

    def command(self) -> Sequence[str]:
        drive = f"file={self.package},if=none,id=package,format=raw,read-only=on"
        device = "virtio-blk-pci,drive=package,bus=pcie.0"
        return [*super().command(), "-drive", drive, "-device", device]

    def install(self) -> str:
        """Install the package over what there is; return what dpkg and its scripts print."""
        dpkg = ("dpkg", "--install", "--force-confold", "/root/rtagent.deb")
        return self.output(*dpkg, timeout=3 * PATIENCE)

    def files(self, directory: str) -> set[str]:
        return set(self.execute("ls", "-A", directory).stdout.split())


@pytest.fixture(scope="module")
def package() -> Path:
    subprocess.run([str(ROOT / "tools/package"), str(LAB / "package")], check=True)
    (package,) = (LAB / "package").glob(f"rtagent_{__version__}_*.deb")
    return package


@pytest.fixture
def host(package: Path, rabbitmq: RabbitMQ, worker_id: str) -> Iterator[HostWithPackage]:
    """A host without an agent, and with the package in /root."""
    profile = PROFILES["two-sockets"]
    host = HostWithPackage(f"{worker_id}-package", profile, image.build(), rabbitmq, {})
    host.package = package
    host.start()
    host.output("sh", "-c", _REMOVE_WHEEL, timeout=PATIENCE)
    size = package.stat().st_size
    host.output("sh", "-c", f"head -c {size} /dev/vdb > /root/rtagent.deb", timeout=PATIENCE)
    yield host
    host.close()


def test_claims_survive_everything_but_a_purge(host: HostWithPackage):
    host.install()
    assert {"rabbitmq", "rtagent.conf.sample"} <= host.files("/usr/share/rtagent")
    assert host.unit("ActiveState") == "inactive"
    assert host.output("stat", "-c", "%a %U:%G", "/etc/rtagent/rtagent.conf", STATE).split() == [
        *("640", "root:rtagent"),
        *("750", "rtagent:rtagent"),
    ]
    host.output("systemctl", "enable", "rtagent")
    host.wait_served()
    claim = host.api.activate_claim(CONTEXT, host.claim(uid())["uuid"])

    before = host.unit("MainPID")
    host.output("sed", "-i", _OLDER, "/var/lib/dpkg/status")
    upgraded = host.install()
    assert f"Unpacking rtagent ({__version__}) over (0.1.9)" in upgraded
    assert f"copied to {STATE}/rtagent.sqlite.before-upgrade" in upgraded
    wait_until(lambda: host.unit("ActiveState") == "active")
    assert host.unit("MainPID") not in (before, "0")
    assert [each["uuid"] for each in host.claims()] == [claim["uuid"]]

    host.output("dpkg", "--remove", "rtagent", timeout=PATIENCE)
    assert host.unit("LoadState") == "not-found"
    assert "rtagent.sqlite" in host.files(STATE)
    assert not host.files("/usr/lib/rtagent")
    host.install()
    assert host.unit("ActiveState") == "inactive"
    host.wait_served()
    assert [each["uuid"] for each in host.claims()] == [claim["uuid"]]

    host.output("touch", f"{STATE}/instances/disk")
    host.output("dpkg", "--purge", "rtagent", timeout=PATIENCE)
    assert host.files(STATE) == {"instances"}
    assert not host.files("/etc/rtagent") and not host.files("/run/rtagent")
    wants = "/etc/systemd/system/multi-user.target.wants"
    assert not {name for name in host.files(wants) if name.startswith("rtagent")}
    assert "rtagentd" not in host.output("ps", "-e", "-o", "comm")
