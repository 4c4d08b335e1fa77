"""The configuration as one value, and every mistake in it at once."""

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from oslo_config import cfg

from rtagent.conf import load, opts
from rtagent.conf.policy import policy
from rtagent.conf.settings import Settings, read
from rtagent.errors import ConfigError
from rtagent.model.node import Ratios
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy


def settings(directory: Path, text: str = "") -> Settings:
    file = directory / "rtagent.conf"
    file.write_text(text)
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
    return read(conf)


def mistakes(directory: Path, text: str) -> list[str]:
    with pytest.raises(ExceptionGroup) as caught:
        settings(directory, text)
    assert all(isinstance(error, ConfigError) for error in caught.value.exceptions)
    return [str(error) for error in caught.value.exceptions]


def test_the_defaults_are_those_of_nova(tmp_path):
    read = settings(tmp_path, "[DEFAULT]\nstate_path = /var/lib/here\n")

    assert read.default.reserved_host_memory_mb == 512
    assert read.default.instances_path == "/var/lib/here/instances"
    assert read.database.connection == "sqlite:////var/lib/here/rtagent.sqlite"
    assert read.api.address == "/var/lib/here/rtagent.sock"
    assert policy(read, Ratios()) == Policy(
        reserved_memory_mb=512, cpu_allocation_ratio=Decimal("4.0"), claim_expiry_time=300
    )


def test_every_option_is_a_field_and_every_field_an_option():
    types = {name: field.type for name, field in _fields(Settings).items()}

    for group, options in opts.groups():
        fields = set(_fields(types[group.lower()]))
        assert fields == {option.dest for option in options}, group
    dynamic = {"mdev"}  # a group for each type
    assert set(types) - dynamic == {group.lower() for group, _ in opts.groups()}


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "[DEFAULT]\nreserved_host_cpus = -1\n",
            "[DEFAULT] reserved_host_cpus = -1: Should be greater than or equal to 0",
        ),
        (
            "[claims]\nclaim_expiry_time = soon\n",
            "[claims] claim_expiry_time = soon: invalid literal for int() with base 10: 'soon'",
        ),
        (
            "[DEFAULT]\nreport_interval = 60\n",
            "[DEFAULT] service_down_time = 60: must be more than report_interval (60),"
            " or a service would be down between two heartbeats",
        ),
        (
            "[claims]\nclaim_expiry_time = 43201\n",
            "[claims] operation_retention = 86400: must be at least twice claim_expiry_time"
            " (43201), or a repeated call could be done twice",
        ),
        (
            "[libvirt]\ncpu_power_management = true\n",
            "[libvirt] cpu_power_management = True: needs [compute] cpu_dedicated_set: it is those"
            " CPUs that it manages",
        ),
        (
            "[libvirt]\ncpu_power_management = true\nconnection_uri = test:///host.xml\n"
            "[compute]\ncpu_dedicated_set = 1\n",
            "[libvirt] cpu_power_management = True: is not for a simulated host: the CPUs would be"
            " this machine's",
        ),
        (
            "[libvirt]\ncpu_power_management_strategy = sleep\n",
            "[libvirt] cpu_power_management_strategy = sleep: Valid values are [cpu_state,"
            " governor], but found 'sleep'",
        ),
        (
            "[DEFAULT]\ncpu_allocation_ratio = nan\n",
            "[DEFAULT] cpu_allocation_ratio = nan: must be a number",
        ),
        (
            "[DEFAULT]\nram_allocation_ratio = inf\n",
            "[DEFAULT] ram_allocation_ratio = inf: Should be less than or equal to 1e+06",
        ),
        (
            "[DEFAULT]\nlock_path = run\n",
            "[DEFAULT] lock_path = run: must be an absolute path",
        ),
        (
            "[DEFAULT]\nlock_path = $nowhere/run\n",
            "[DEFAULT] lock_path = (unresolved): no such option nowhere in group [DEFAULT]",
        ),
        (
            "[upgrade_levels]\nrtagent = new\n",
            "[upgrade_levels] rtagent = new: Value 'new' doesn't match regex '^\\\\d+\\\\.\\\\d+$'",
        ),
        (
            "[upgrade_levels]\nrtagent = v1\n",
            "[upgrade_levels] rtagent = v1: Value 'v1' doesn't match regex '^\\\\d+\\\\.\\\\d+$'",
        ),
        (
            "[compute]\ncpu_dedicated_set = 4-1\n",
            "[compute] cpu_dedicated_set = 4-1: '4-1': a range goes from its lower end to its"
            " higher one",
        ),
        (
            "[compute]\ncpu_shared_set = ^1\n",
            "[compute] cpu_shared_set = : no CPU is left in it",
        ),
        (
            "[compute]\ncpu_shared_set = 0-3\ncpu_dedicated_set = 2-7,^6\n",
            "[compute] cpu_dedicated_set = 2-5,7: CPUs 2-3 are in cpu_shared_set, too",
        ),
        (
            "[DEFAULT]\nreserved_host_cpus = 1\n[compute]\ncpu_shared_set = 0-3\n",
            "[DEFAULT] reserved_host_cpus = 1: is not combined with [compute] cpu_shared_set or"
            " cpu_dedicated_set",
        ),
        (
            "[DEFAULT]\nreserved_huge_pages = node:0,size:2048\n",
            "[DEFAULT] reserved_huge_pages = node:0,size:2048: 'node:0,size:2048' must say node,"
            " size and count, and nothing else",
        ),
        (
            "[DEFAULT]\nreserved_huge_pages = node:x,size:2048,count:1\n",
            "[DEFAULT] reserved_huge_pages = node:x,size:2048,count:1: node 'x' is not a whole"
            " number",
        ),
        (
            "[DEFAULT]\nreserved_huge_pages = node:0,size:2M,count:1\n",
            "[DEFAULT] reserved_huge_pages = node:0,size:2M,count:1: '2M' is neither small, large,"
            " any, a number of KiB, nor a size with a unit (2MB, 2MiB, 1GB)",
        ),
        (
            "[DEFAULT]\nreserved_huge_pages = node:0,size:2048,count:1\n"
            "reserved_huge_pages = node:0,size:2MB,count:2\n",
            "[DEFAULT] reserved_huge_pages = node:0,size:2048,count:1: says twice how many pages of"
            " 2048 KiB cell 0 reserves",
        ),
        (
            "[libvirt]\nrealtime_scheduler_priority = 100\n",
            "[libvirt] realtime_scheduler_priority = 100: Should be less than or equal to 99",
        ),
    ],
)
def test_a_mistake_names_option_value_and_rule(tmp_path, text, mistake):
    assert mistakes(tmp_path, text) == [mistake]


def test_cpus_pages_and_packing_as_nova_writes_them(tmp_path):
    text = """
[DEFAULT]
reserved_huge_pages = node:0,size:2048,count:64
reserved_huge_pages = node:1,size:1GB,count:1
reserved_huge_pages = node:1,size:2MiB,count:8
[compute]
cpu_shared_set = 0-1
cpu_dedicated_set = 4-8,^6, 12
packing_host_numa_cells_allocation_strategy = True
[libvirt]
realtime_scheduler_priority = 20
"""

    assert policy(settings(tmp_path, text), Ratios()).numa == NumaPolicy(
        cpu_shared_set=frozenset({0, 1}),
        cpu_dedicated_set=frozenset({4, 5, 7, 8, 12}),
        reserved_huge_pages={0: {2048: 64}, 1: {1048576: 1, 2048: 8}},
        packing=True,
        realtime_scheduler_priority=20,
    )


@pytest.mark.parametrize("text", ["", "[compute]\ncpu_shared_set =\ncpu_dedicated_set =\n"])
def test_a_cpu_set_that_says_nothing_is_not_set(tmp_path, text):
    assert policy(settings(tmp_path, text), Ratios()).numa == NumaPolicy()


def test_all_mistakes_are_reported_at_once(tmp_path):
    text = """
[DEFAULT]
reserved_host_cpus = -1
report_interval = 90
[claims]
operation_retention = 30
[libvirt]
call_timeout = 0
"""

    options = sorted(line.split(" = ")[0] for line in mistakes(tmp_path, text))

    assert options == [
        "[DEFAULT] reserved_host_cpus",
        "[DEFAULT] service_down_time",
        "[claims] operation_retention",
        "[libvirt] call_timeout",
    ]


def test_a_host_has_the_names_that_nova_lets_it_have(tmp_path):
    assert settings(tmp_path, "[DEFAULT]\nhost = compute_1\n").default.host == "compute_1"


def test_power_management_begins_and_ends_with_a_reload(tmp_path):
    file, dedicated = tmp_path / "rtagent.conf", "[compute]\ncpu_dedicated_set = 2-3\n"
    file.write_text(dedicated)
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")
    powered = [read(conf).powered_cpus]
    for text in ("[libvirt]\ncpu_power_management = True\n", ""):
        file.write_text(dedicated + text)
        conf.mutate_config_files()
        powered.append(read(conf).powered_cpus)

    assert powered == [frozenset(), frozenset({2, 3}), frozenset()]


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("", "qemu:///system"),
        ("connection_uri =\n", "qemu:///system"),
        ("connection_uri = test:///h\n", "test:///h"),
    ],
)
def test_no_uri_is_that_of_this_machines_own_hypervisor(tmp_path, text, uri):
    assert settings(tmp_path, f"[libvirt]\n{text}").libvirt.uri == uri


@pytest.mark.parametrize("interval", [-1, -60])
def test_any_interval_below_zero_is_nova_s_never(tmp_path, interval):
    text = f"[DEFAULT]\nupdate_resources_interval = {interval}\n"

    assert settings(tmp_path, text).default.update_resources_interval == interval


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (None, "Failed to find some config files"),
        (b"[x\n", "Failed to parse"),
        (b"\xff\n", "codec can't decode"),
        (b"[DEFAULT]\nuse_syslog = x\n", "argument --use_syslog: Invalid Boolean value: x"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_mistake_too(tmp_path, content, part):
    file = tmp_path / "rtagent.conf"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ExceptionGroup) as caught:
        load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")

    (error,) = caught.value.exceptions
    assert part in str(error)
    assert str(file) in str(error)


@pytest.mark.parametrize(
    ("text", "recorded", "ratio"),
    [
        ("", None, "4.0"),
        ("", "2.5", "2.5"),
        ("initial_cpu_allocation_ratio = 8\n", "2.5", "2.5"),
        ("initial_cpu_allocation_ratio = 8\n", None, "8.0"),
        ("cpu_allocation_ratio = 1.1\n", "2.5", "1.1"),
        ("cpu_allocation_ratio = 0.0\n", "2.5", "2.5"),
    ],
)
def test_a_ratio_is_the_option_else_the_records_else_the_initial_one(
    tmp_path, text, recorded, ratio
):
    kept = Ratios(cpu=None if recorded is None else Decimal(recorded))

    made = policy(settings(tmp_path, f"[DEFAULT]\n{text}"), kept)

    assert made.cpu_allocation_ratio == Decimal(ratio)


def test_every_option_tells_the_operator_what_it_does():
    for group, options in opts.groups():
        for option in options:
            assert option.help and len(option.help) > 40, f"[{group}] {option.name}"


def test_the_generator_lists_each_option_once():
    for group, options in opts.list_opts():
        names = [option.dest for option in options]
        assert len(names) == len(set(names)), group


def _fields(struct):
    return {field.name: field for field in msgspec.structs.fields(struct)}
