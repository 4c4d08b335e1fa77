"""rtagent host simulate, as an operator calls it."""

from uuid import uuid4

import pytest

from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_SNP, INTEL_TDX
from rtagent.virt.libvirt import LibvirtHypervisor
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.simulate import domain_xml
from tests.functional.cli.shell import run

DEVICE = """
<device>
  <name>pci_1</name>
  <capability type='pci'>
    <domain>0</domain><bus>8</bus><slot>0</slot><function>0</function>
    <product id='0x1bb1'/><vendor id='0x10de'/>
  </capability>
</device>
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "host.xml"


def observe(uri):
    hypervisor = LibvirtHypervisor(uri, "/")
    try:
        return hypervisor.identity(), hypervisor.observe()
    finally:
        hypervisor.stop()


def test_a_host_is_written_and_its_uri_printed(file):
    hardware = ["--sockets", "1", "--cores", "2", "--threads", "2", "--cells", "1"]
    devices = ["--gpus", "2", "--nics", "1", "--vfs", "4", "--nvmes", "1"]
    made = run(
        *["host", "simulate", str(file), *hardware, *devices],
        *["--memory", "4096", "--pages", "2048=512", "--pages", "1GB=2"],
        *["--hostname", "node-1", "--domains", "3"],
    )
    assert (made.code, made.out, made.err) == (0, f"test://{file}\n", "")

    identity, seen = observe(made.out.strip())
    assert identity.hostname == "node-1"
    assert (seen.topology.cpus, seen.topology.memory_mb) == ({0, 1, 2, 3}, 4096)
    (cell,) = seen.topology.cells
    assert (cell.pages[2048], cell.pages[1048576]) == (512, 2)
    assert [(d.vcpus, d.memory_mb) for d in seen.domains.values()] == [(1, 64)] * 3
    products = [device.product_id for device in seen.devices]
    assert [products.count(product) for product in ("13f1", "1583", "154c", "0010")] == [2, 1, 4, 1]


def test_a_name_that_is_too_long_is_refused(tmp_path):
    made = run("host", "simulate", str(tmp_path / ("x" * 300)))
    assert made.code == 1 and "File name too long" in made.err
    assert list(tmp_path.iterdir()) == []


def test_encryption_of_memory_is_that_of_the_options(file):
    options = ("--sev-guests", "3", "--sev-snp-guests", "2", "--tdx-guests", "5")
    made = run("host", "simulate", str(file), *options)
    seen = observe(made.out.strip())[1]
    contexts = {each.model: each.contexts for each in seen.topology.mem_encryption}
    assert (contexts, seen.problems) == ({AMD_SEV: 3, AMD_SEV_SNP: 2, INTEL_TDX: 5}, ())


@pytest.mark.parametrize(
    "twice",
    [("--pages", "2048=1", "--pages", "2MB=2"), ("--namespace", "a=1", "--namespace", "a=2")],
)
def test_what_is_given_twice_is_refused(file, twice):
    made = run("host", "simulate", str(file), *twice)
    assert made.code == 1 and f"{twice[0]}: a size or name is given more than once" in made.err
    assert not file.exists()


def test_namespaces_are_listed(file):
    made = run("host", "simulate", str(file), "--namespace", "ns0=4096", "--namespace", "a=b=1")
    assert "namespace a=b=1" in made.err and not file.exists()
    made = run("host", "simulate", str(file), "--namespace", "ns0=4096", "--namespace", "ns1=2")
    found = observe(made.out.strip())[1].namespaces
    assert [(each.name, each.path, each.size_kb) for each in found] == [
        ("ns0", "/dev/dax0.0", 4096 * 1024),
        ("ns1", "/dev/dax1.0", 2 * 1024),
    ]


@pytest.mark.parametrize("odd", ["2048", "2M=1", "2048=many", "=1"])
def test_invalid_pages_are_refused(file, odd, capsys):
    with pytest.raises(SystemExit):
        run("host", "simulate", str(file), "--pages", odd)
    assert f"{odd!r} is not SIZE=N" in capsys.readouterr().err
    assert not file.exists()


def test_a_host_is_not_overwritten(file):
    assert run("host", "simulate", str(file)).code == 0
    before = file.read_bytes()
    again = run("host", "simulate", str(file), "--domains", "1")
    assert again.code == 1
    assert f"{file} exists: remove it first" in again.err
    assert file.read_bytes() == before


@pytest.mark.parametrize(("of", "number", "least"), [("cores", "0", 1), ("domains", "-1", 0)])
def test_impossible_hardware_writes_nothing(file, of, number, least):
    refused = run("host", "simulate", str(file), f"--{of}", number)
    message = f"rtagent: {of} = {number}: it must be at least {least}\n"
    assert (refused.code, refused.err) == (1, message)
    assert not file.exists()
    assert not capabilities_path(file).exists()


@pytest.mark.parametrize("given", ["text", "utf-8", "utf-16"])
def test_domains_and_devices_are_added_and_removed(file, tmp_path, given):
    first, second = str(uuid4()), str(uuid4())
    run("host", "simulate", str(file))

    def xml(document):
        if given == "text":
            return document
        path = tmp_path / f"{uuid4()}.xml"
        declared = f'<?xml version="1.0" encoding="{given}"?>\n{document.strip()}'
        path.write_text(declared, given)
        return str(path)

    domains = [xml(domain_xml(uuid, vcpus=2, memory_mb=512)) for uuid in (first, second)]
    added = run(
        *["host", "simulate", "edit", str(file), "--add-device", xml(DEVICE)],
        *["--add-domain", domains[0], "--add-domain", domains[1]],
    )
    assert (added.code, added.out, added.err) == (0, "", "")
    assert set(observe(f"test://{file}")[1].domains) == {first, second}
    assert "<name>pci_1</name>" in file.read_text()

    removed = run(
        *["host", "simulate", "edit", str(file)],
        *["--remove-domain", first, "--remove-device", "pci_1"],
    )
    assert removed.code == 0
    assert set(observe(f"test://{file}")[1].domains) == {second}
    assert "pci_1" not in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--add-domain", "/nowhere.xml"], "/nowhere.xml: No such file"),
        (["--add-domain", "<domain"], "not well-formed"),
        (["--remove-domain", str(uuid4())], "no domain has the uuid"),
    ],
)
def test_an_impossible_edit_names_the_reason(file, arguments, message):
    run("host", "simulate", str(file))
    refused = run("host", "simulate", "edit", str(file), *arguments)
    assert refused.code == 1
    assert message in refused.err
