"""The host's persistent memory, as ndctl lists it."""

import json
import time

import pytest

from rtagent.model.assignment import PmemNamespace
from rtagent.ports import PmemUnavailable
from rtagent.virt.libvirt.storage import Ndctl, parse_namespaces


def namespace(name="ns0", mode="devdax", size=4 * 1024**3, devices=None, **more):
    """A namespace as ``ndctl list -X`` shows it."""
    device = {"chardev": "dax0.0", "size": size, "target_node": 2, "mode": "devdax"}
    chosen = [device] if devices is None else devices
    region = {"id": 0, "size": size, "align": 2097152, "devices": chosen}
    facts = {"dev": "namespace0.0", "mode": mode, "map": "dev", "size": size, "uuid": "u"}
    return {**facts, "daxregion": region, "name": name, "numa_node": 0, **more}


NS0 = PmemNamespace(name="ns0", path="/dev/dax0.0", size_kb=4194304, align_kb=2048)


def test_one_namespace_is_listed_without_brackets_and_none_as_nothing():
    assert parse_namespaces(json.dumps(namespace())) == (NS0,)
    assert parse_namespaces("\n") == parse_namespaces("[]") == ()


@pytest.mark.parametrize(
    "useless",
    [
        namespace("ns1", mode="fsdax"),
        namespace(name=""),
        namespace("ns1", devices=[]),
        namespace("ns1", devices=[{"chardev": "dax1.0"}, {"chardev": "dax1.1"}]),
        namespace("ns1", devices=[{"chardev": "dax1.0", "mode": "system-ram"}]),
        namespace("ns1", devices=[{"chardev": "../sda"}]),
        namespace("ns1", size=0),
        {"name": "ns1", "mode": "raw", "size": 4096},
    ],
)
def test_namespaces_that_no_guest_can_use_are_left_out(useless):
    assert parse_namespaces(json.dumps([namespace(), useless])) == (NS0,)


def test_a_name_that_two_namespaces_have_is_left_out():
    assert parse_namespaces(json.dumps([namespace(), namespace("a"), namespace("a")])) == (NS0,)


@pytest.mark.parametrize("odd", ["no JSON", '"text"', '[{"size": "30 GiB"}]', "[null]", "\ud800"])
def test_another_output_is_an_error(odd):
    with pytest.raises(PmemUnavailable, match="ndctl list -X: "):
        parse_namespaces(odd)


def command(tmp_path, script):
    """A command that stands in for ndctl."""
    path = tmp_path / "ndctl"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_command_is_run(tmp_path):
    listed = json.dumps([namespace()])
    script = f"test \"$*\" = 'list -X' && printf '%s' '{listed}'"
    source = Ndctl(command(tmp_path, script))
    assert source.installed
    assert source.namespaces() == (NS0,)


def test_a_host_without_the_command_has_no_namespaces(tmp_path):
    source = Ndctl(str(tmp_path / "none"))
    assert (source.installed, source.namespaces()) == (False, ())


def test_a_failing_command_is_an_error(tmp_path):
    with pytest.raises(PmemUnavailable, match="it is broken"):
        Ndctl(command(tmp_path, "echo it is broken >&2; exit 1")).namespaces()


def test_a_hanging_command_is_given_up(tmp_path):
    started = time.monotonic()
    with pytest.raises(PmemUnavailable, match="did not end within 1 s"):
        Ndctl(command(tmp_path, "exec sleep 600"), timeout=1).namespaces()
    assert time.monotonic() - started < 60
