"""Arguments of QEMU and of the kernel for a profile."""

import base64
from pathlib import Path

import pytest

from lab import machine
from lab.profile import PROFILES


@pytest.mark.parametrize("name", PROFILES)
def test_every_cpu_is_in_one_cell(name):
    profile = PROFILES[name]
    cpus = [cpu for cell in range(profile.cells) for cpu in profile.cell_cpus(cell)]
    assert cpus == list(range(profile.cpus))
    assert f"{profile.cpus},sockets={profile.sockets}" in " ".join(machine.hardware(profile))


def test_pages_are_asked_for_cell_by_cell():
    line = machine.kernel_line(PROFILES["four-cells"], "lab1")
    assert "hugepages=0:16,1:16,2:16,3:16" in line.split()
    assert "systemd.hostname=lab1" in line.split()


def test_only_one_profile_has_no_virtual_functions_and_no_group():
    plain = [
        name
        for name, profile in PROFILES.items()
        if not {"nvme-subsys,id=subsystem", "edu,bus=conventional,addr=1"}
        & set(machine.hardware(profile))
    ]
    assert plain == ["no-sriov"]


def test_a_host_reaches_the_servers_that_are_named_and_no_other():
    arguments = machine.peripherals({machine.BROKER: 5001, machine.PLACEMENT: 5002}, 5003)
    (network,) = (each for each in arguments if each.startswith("user,"))
    reached = [each for each in network.split(",") if each.startswith("guestfwd=")]
    assert "restrict=on" in network
    assert reached == [
        f"guestfwd=tcp:{address}-cmd:socat STDIO TCP:127.0.0.1:{port}"
        for address, port in ((machine.BROKER, 5001), (machine.PLACEMENT, 5002))
    ]


def test_further_disks_are_only_read():
    arguments = machine.peripherals({}, 5003, [Path("/nova.raw"), Path("/other.raw")])
    drives = [each.split(",") for each in arguments if each.startswith("file=")]
    own, *more = drives
    assert own[0] == "file=disk.qcow2" and "readonly=on" not in own
    assert [each[0] for each in more] == ["file=/nova.raw", "file=/other.raw"]
    assert all({"format=raw", "readonly=on"} <= set(each) for each in more)


def test_a_file_at_boot_is_what_systemd_unescapes():
    given = machine.file_at_boot("/etc/file", "[a]\nb = 50%\\\n")
    encoded = given.removeprefix("type=11,value=io.systemd.credential.binary:tmpfiles.extra=")
    line = base64.b64decode(encoded).decode()
    assert line == "f /etc/file 0640 root rtagent - [a]\\nb = 50%%\\\\\\n\n"
