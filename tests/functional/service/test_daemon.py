"""How the daemon starts, waits, reloads, refuses and stops."""

import json
import re
import signal
import sqlite3
import time
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from uuid import UUID

import pytest

from rtagent.errors import HypervisorUnavailable
from rtagent.service.audits import GAP
from rtagent.virt.libvirt.hostfile import capabilities_path
from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.servers.daemon import Daemon, wait_until
from tests.support.pci_hosts import GPU_IDS

EX_CONFIG = 78
#: Signals that request the end of a process, or report a defect.
MEANT_TO_END = {
    *(signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGQUIT),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP),
    *(signal.SIGABRT, signal.SIGSYS),
}
MEANT_TO_SUSPEND = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
#: The uuid of a domain without a claim.
OTHER = str(UUID(int=7))


@pytest.fixture
def daemon(tmp_path):
    made = Daemon(tmp_path / "a", "fake://")
    yield made
    made.close()


def node(daemon: Daemon) -> dict:
    (only,) = daemon.read("nodes")["nodes"]
    return only


def wait_counted(daemon: Daemon, part: str, number: int) -> None:
    """Wait until so many lines of the log contain `part`."""
    wait_until(lambda: daemon.count_logged(part) == number)


def re_sized(capabilities: bytes) -> bytes:
    """The document with a memory size of 5,000 digits, which Python does not convert."""
    return re.sub(rb"(<memory[^>]*>)[0-9]+", rb"\g<1>" + b"7" * 5000, capabilities)


def copy_of(daemon: Daemon, tmp_path: Path, **options: object) -> Daemon:
    """A second daemon on the same hypervisor and database, with another state directory."""
    database = f"sqlite:///{daemon.directory}/rtagent.sqlite"
    made = Daemon(tmp_path / "b", "fake://", database_url=database)
    made.configure({"libvirt": {"connection_uri": f"test://{daemon.host_file}"}})
    made.configure({"DEFAULT": options})
    return made


# -- start -----------------------------------------------------------------------------------------


def test_daemon_is_ready_after_the_first_good_audit_and_stops_at_a_signal(tmp_path):
    with Daemon(tmp_path, "fake://", environment={"WATCHDOG_USEC": "60000000"}) as daemon:
        daemon.wait_ready()
        assert node(daemon)["memory_mb"] == Machine().memory_mb
        assert daemon.read("ready")["ready"] is True
        assert daemon.read("health")["status"] == "pass"
        assert daemon.wait_notified("STATUS=") == "STATUS=granting; 0 claims on simulated-host"
        daemon.wait_notified("WATCHDOG=1")

        assert daemon.terminate() == 0
        assert "STOPPING=1" in daemon.notify.lines
        assert not Path(daemon.address.path).exists()


def test_restart_finds_the_same_node_although_its_service_is_renamed(daemon):
    daemon.start().wait_ready()
    first = node(daemon)
    daemon.kill()
    daemon.configure({"DEFAULT": {"host": "renamed"}})

    daemon.start().wait_ready()

    assert node(daemon)["uuid"] == first["uuid"]
    assert node(daemon)["epoch"] == first["epoch"] + 1
    assert node(daemon)["host"] == "renamed"
    assert node(daemon)["uuid"] == (daemon.directory / "compute_id").read_text().strip()


def test_domains_and_devices_that_appear_are_found_before_the_next_audit_is_due(daemon):
    simulate(daemon.host_file, Machine(gpus=1))
    daemon.configure({"DEFAULT": {"update_resources_interval": -1}})
    daemon.start().wait_ready()
    with edit(daemon.host_file) as world:
        world.add_domain(domain_xml(OTHER, vcpus=2, memory_mb=1024))
    daemon.wait_logged("1 orphan")
    assert node(daemon)["vcpus_used"] == 2

    assert daemon.read("pci")["pci"] == []
    daemon.configure({"pci": {"device_spec": json.dumps(GPU_IDS)}})
    time.sleep(2 * GAP)  # the pause after the last audit must not delay the next one
    daemon.reload()
    wait_until(lambda: len(daemon.read("pci")["pci"]) == 1)


def test_every_mistake_in_the_configuration_is_printed(daemon):
    daemon.configure(
        {
            "DEFAULT": {
                "reserved_host_cpus": -1,
                "transport_url": "pigeon://",
                "log_config_append": "/nonexistent/logging.conf",
                "compute_monitors": "cpu.other",
                "use_journal": True,
            },
            "database": {"connection": "oracle://"},
            "compute": {"cpu_shared_set": "\x1b[31m\u202e"},
            "pci": {"device_spec": '{"vendor": "10de"}'},
            "oslo_reports": {"log_dir": "/nonexistent"},
        }
    )
    daemon.start()

    assert daemon.wait() == EX_CONFIG
    printed = daemon.last_lines()
    journal = ["[DEFAULT] use_journal = True: needs the Python package systemd-python"]
    for line in (
        *(journal if find_spec("systemd") is None else ()),
        "[DEFAULT] reserved_host_cpus = -1: Should be greater",
        "[DEFAULT] transport_url = pigeon://",
        "[DEFAULT] log_config_append = /nonexistent/logging.conf: is not a file",
        "[DEFAULT] compute_monitors = cpu.other: is not installed. Installed are:",
        "[database] connection = oracle://",
        r"[compute] cpu_shared_set = \x1b[31m\u202e",
        "[pci] device_spec 0: vendor = 10de: unknown key; the keys are vendor_id,",
        "[oslo_reports] log_dir = /nonexistent: is not a directory",
    ):
        assert f"rtagentd: {line}" in printed
    assert "Traceback" not in daemon.log.read_text()


@pytest.mark.parametrize(
    ("option", "value"),
    [("log_file", "/nonexistent/rtagentd.log"), ("default_log_levels", "nonsense")],
)
def test_unusable_log_option_ends_the_start(daemon, option, value):
    daemon.configure({"DEFAULT": {option: value}})
    daemon.start()

    assert daemon.wait() == EX_CONFIG
    assert f"rtagentd: [DEFAULT] {option}" in daemon.last_lines()
    assert "Traceback" not in daemon.log.read_text()


def test_each_module_has_a_log_level(daemon):
    levels = {"default_log_levels": "rtagent.audit=DEBUG", "update_resources_interval": 1}
    daemon.configure({"DEFAULT": levels})
    daemon.start().wait_ready()

    daemon.wait_logged("DEBUG rtagent.audit [")
    assert " DEBUG " not in daemon.log.read_text().replace(" DEBUG rtagent.audit ", "")


@pytest.mark.parametrize(
    ("group", "option", "value", "rule"),
    [
        ("compute", "cpu_dedicated_set", "4,900", "this host has no CPUs 900"),
        (
            "libvirt",
            "pmem_namespaces",
            "4GB:ns0|ns1",
            "needs the command ndctl: install",
        ),
    ],
)
def test_what_the_host_does_not_have_ends_the_start(daemon, tmp_path, group, option, value, rule):
    daemon.configure({"libvirt": {"connection_uri": "test:///default"}})
    daemon.configure({group: {option: value}})
    daemon.start(PATH=str(tmp_path))

    assert daemon.wait() == EX_CONFIG
    assert f"[{group}] {option} = {value}: {rule}" in daemon.last_lines()
    assert "READY=1" not in daemon.last_lines()


# -- waiting ---------------------------------------------------------------------------------------


def test_start_waits_for_the_hypervisor_and_for_the_database(daemon):
    world = daemon.host_file.rename(daemon.directory / "away.xml")
    directory = daemon.directory / "mounted"
    daemon.configure({"database": {"connection": f"sqlite:///{directory}/rtagent.sqlite"}})
    daemon.start()
    daemon.wait_notified("STATUS=waiting for the hypervisor")
    world.rename(daemon.host_file)
    daemon.wait_notified("STATUS=waiting for the database")
    directory.mkdir()

    daemon.wait_ready()


def test_odd_capabilities_end_neither_the_start_nor_the_audits(daemon):
    file = capabilities_path(daemon.host_file)
    good = file.read_bytes()
    odd = [good.replace(b"<capabilities>", b"<capabilities>\xff&undefined;"), re_sized(good)]
    file.write_bytes(odd[0])
    daemon.start()
    daemon.wait_notified("STATUS=waiting for the hypervisor: the host's capabilities: not well")
    file.write_bytes(odd[1])  # what is wrong with one cell is set aside
    daemon.wait_ready()

    for document, problem in ((odd[1], "host cells"), (odd[0], "host capabilities")):
        file.write_bytes(document)
        wait_until(lambda: problem in str(daemon.read("health")["checks"]["audit"]))  # noqa: B023
        file.write_bytes(good)
        wait_until(lambda: daemon.read("health")["status"] == "pass")

    assert node(daemon)["memory_mb"] == Machine().memory_mb
    assert "Traceback" not in daemon.log.read_text()


def test_signal_ends_the_wait(daemon):
    daemon.host_file.unlink()
    daemon.start()
    daemon.wait_notified("STATUS=waiting for the hypervisor")

    assert daemon.terminate() == 0


def test_no_claim_is_granted_while_the_hypervisor_is_away(daemon):
    daemon.start().wait_ready()
    world = daemon.host_file.rename(daemon.directory / "away.xml")
    daemon.wait_notified("STATUS=not granting")
    with pytest.raises(HypervisorUnavailable):
        daemon.read("ready")
    assert daemon.read("health")["checks"]["hypervisor"][0]["status"] == "fail"

    world.rename(daemon.host_file)

    daemon.wait_notified("STATUS=granting")
    assert daemon.read("ready")["ready"] is True


def test_another_hypervisor_in_its_place_ends_the_daemon(daemon):
    daemon.start().wait_ready()
    daemon.host_file.unlink()
    daemon.wait_notified("STATUS=not granting")

    simulate(daemon.host_file, Machine(hostname="another"))

    assert daemon.wait() == EX_CONFIG
    assert "start again" in daemon.last_lines()


# -- signals ---------------------------------------------------------------------------------------


def test_only_requests_to_stop_end_the_daemon(daemon):
    others = signal.valid_signals() - MEANT_TO_END - MEANT_TO_SUSPEND
    daemon.host_file.rename(daemon.directory / "away.xml")
    daemon.start()
    daemon.wait_notified("STATUS=waiting for the hypervisor")
    for number in others:
        daemon.signal(number)
    daemon.wait_logged("state: waiting for the hypervisor")
    (daemon.directory / "away.xml").rename(daemon.host_file)
    daemon.wait_ready()

    for number in others:
        daemon.signal(number)

    daemon.wait_logged("state: granting; 0 claims on simulated-host")
    daemon.wait_logged("state: thread audit is in ")
    assert daemon.read("ready")["ready"] is True
    assert daemon.terminate() == 0


# -- identity --------------------------------------------------------------------------------------


def test_second_agent_on_the_state_directory_is_refused(daemon, tmp_path):
    daemon.start().wait_ready()
    second = copy_of(daemon, tmp_path, state_path=daemon.directory)

    with second:
        assert second.wait() == EX_CONFIG

    assert f"is locked by process {daemon.pid}" in second.last_lines()
    assert daemon.running


def test_copy_of_a_live_agent_is_refused_until_the_operator_takes_over(daemon, tmp_path):
    daemon.configure({"DEFAULT": {"report_interval": 1}})
    daemon.start().wait_ready()
    copy = copy_of(daemon, tmp_path)
    (copy.directory / "compute_id").write_text((daemon.directory / "compute_id").read_text())
    with copy:
        assert copy.wait() == EX_CONFIG
        assert str(daemon.directory) in copy.last_lines()
        assert "--take-over" in copy.last_lines()

        copy.start("--take-over").wait_ready()

        assert daemon.wait() == EX_CONFIG  # though it had nothing to write
        assert "a newer writer has epoch" in daemon.last_lines()
        assert copy.running


# -- reload ----------------------------------------------------------------------------------------


def test_reload_is_in_force_without_a_restart(daemon):
    daemon.start().wait_ready()
    daemon.configure(
        {
            "DEFAULT": {
                "reserved_host_memory_mb": 2048,
                "cpu_allocation_ratio": 2.5,
                "host": "other",
            },
            "compute": {"cpu_shared_set": "0-3", "cpu_dedicated_set": "4-9"},
        }
    )

    daemon.reload()

    daemon.wait_notified("RELOADING=1")
    daemon.wait_notified("READY=1")
    daemon.wait_logged("reserved_host_memory_mb changed from [None] to [2048]")
    daemon.wait_logged("Ignoring change to immutable option DEFAULT.host")
    wait_until(lambda: node(daemon)["memory_mb_used"] == 2048)
    assert node(daemon)["cpu_allocation_ratio"] == 2.5
    assert node(daemon)["host"] == "agent1"
    wait_until(lambda: node(daemon)["inventories"]["PCPU"]["total"] == 6)


def test_reload_with_a_mistake_changes_nothing(daemon):
    daemon.start().wait_ready()
    good = daemon.config_file.read_text()
    for group, option, value, name in (
        ("DEFAULT", "reserved_host_cpus", "-1", ""),
        ("DEFAULT", "rpc_response_timeout", "soon", ""),
        ("DEFAULT", "use_json", "perhaps", "[command line] config_file"),
        ("DEFAULT", "log_config_append", "/nonexistent", ""),
        ("pci", "device_spec", "{", "[pci] device_spec 0: the document = {"),
        ("compute", "cpu_dedicated_set", "4-9,900", ""),
    ):
        wrong = f"[{group}]\n{option} = {value}\n"
        daemon.config_file.write_text(f"{good}\n[DEFAULT]\nreserved_host_memory_mb = 2048\n{wrong}")

        daemon.reload()

        mistake = name or f"[{group}] {option} = {value}"
        daemon.wait_logged(f"the old configuration stays in force: {mistake}")
        assert node(daemon)["memory_mb_used"] == 512
    daemon.wait_notified("RELOADING=1")
    daemon.wait_notified("READY=1")
    assert daemon.terminate() == 0


def test_reload_repeats_what_the_operator_should_know(daemon):
    types = {"enabled_mdev_types": "nvidia-35,nvidia-36"}
    daemon.configure({"devices": types})
    daemon.start().wait_ready()
    doubts = partial(daemon.count_logged, " WARNING rtagent.service.agent ")
    assert doubts() == 1

    for number in (2, 3):
        daemon.reload()
        wait_counted(daemon, "the configuration was reloaded", number - 1)
        assert doubts() == number

    daemon.configure({"DEFAULT": {"reserved_host_cpus": -1}})
    for number in (1, 2):
        daemon.reload()
        wait_counted(daemon, "the old configuration stays in force", number)


def test_record_shows_what_was_changed_during_a_stop_and_keeps_a_ratio_that_is_not_set(daemon):
    daemon.configure({"DEFAULT": {"cpu_allocation_ratio": 2.5}})
    daemon.start().wait_ready()
    daemon.terminate()
    daemon.configure({"DEFAULT": {"cpu_allocation_ratio": 0.0, "reserved_host_memory_mb": 4096}})

    daemon.start().wait_ready()

    def recorded() -> int:
        with closing(sqlite3.connect(daemon.directory / "rtagent.sqlite")) as database:
            (used,) = database.execute("SELECT memory_mb_used FROM compute_nodes").fetchone()
        return int(used)

    wait_until(lambda: recorded() == 4096)
    assert node(daemon)["cpu_allocation_ratio"] == 2.5
