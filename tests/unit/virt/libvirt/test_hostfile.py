"""The file of a simulated host, and what the agent reads of the machine itself."""

import re
from pathlib import Path

import pytest

from rtagent.virt.libvirt.host import default_hugepage
from rtagent.virt.libvirt.hostfile import (
    capabilities_path,
    host_file,
    rejection,
    signature,
    simulated_hostname,
)


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("test:///var/lib/host.xml", Path("/var/lib/host.xml")),
        ("test:///a%20b.xml", Path("/a b.xml")),
        ("test:///default", None),
        ("test://", None),
        ("test://[::1", None),
        ("test://elsewhere/host.xml", None),
        ("qemu:///system", None),
        ("qemu:///system?socket=/x", None),
    ],
)
def test_which_uris_have_a_file(uri, file):
    assert host_file(uri) == file


def test_the_signature_changes_with_either_document(tmp_path):
    file = tmp_path / "host.xml"
    signatures = [signature(file)]
    for path in (file, capabilities_path(file), file):
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        signatures.append(signature(file))
    assert len(set(signatures)) == 4
    assert signature(file) == signatures[-1]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("<?rtagent-host name='n-1'?><capabilities/>", "n-1"),
        ("<?other name='n-2'?><capabilities/>", None),
        ("<capabilities/>", None),
    ],
)
def test_the_host_is_named_by_an_instruction(document, name):
    assert simulated_hostname(document) == name


def test_a_file_that_libvirt_rejects(tmp_path):
    file = tmp_path / "host.xml"
    file.write_text("<node><domain type='test'/></node>")
    assert "must be specified" in rejection(file) or "missing" in rejection(file)
    file.write_text("<node/>")
    assert rejection(file) == ""


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu+unix:///system", "test:///default"])
def test_large_pages_have_the_kernels_default_size(uri):
    found = re.findall(r"Hugepagesize: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert default_hugepage(uri) == (int(found[0]) if found else None)


def test_the_default_size_of_another_machine_is_unknown():
    assert default_hugepage("qemu+tls://cn7.example/system") is None
