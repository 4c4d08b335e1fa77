"""The file of [capacity] flavors_file, as the openstack client prints flavors."""

import json

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.flavors_file import read_flavors
from rtagent.model.request import Flavor

#: As ``openstack flavor list --long -f json`` prints it.
LISTED = {
    "ID": "1",
    "Name": "small",
    "RAM": 2048,
    "Disk": 20,
    "Ephemeral": 0,
    "VCPUs": 2,
    "Is Public": True,
    "Swap": 0,
    "RXTX Factor": 1.0,
    "Properties": {"hw:cpu_policy": "dedicated"},
}
#: As ``openstack flavor show -f json`` prints it.
SHOWN = {
    "OS-FLV-DISABLED:disabled": False,
    "OS-FLV-EXT-DATA:ephemeral": 1,
    "access_project_ids": None,
    "description": None,
    "disk": 20,
    "id": "1",
    "name": "small",
    "os-flavor-access:is_public": True,
    "properties": {"hw:cpu_policy": "dedicated"},
    "ram": 2048,
    "rxtx_factor": 1.0,
    "swap": 512,
    "vcpus": 2,
}
PINNED = {"hw:cpu_policy": "dedicated"}
SMALL = Flavor(name="small", flavorid="1", vcpus=2, memory_mb=2048, root_gb=20, extra_specs=PINNED)


def read(tmp_path, text, name="flavors.json"):
    file = tmp_path / name
    file.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
    flavors, mistakes = read_flavors(str(file))
    return flavors, [str(each).removeprefix(f"{file}: ") for each in mistakes]


def test_a_list_and_one_flavor_are_read(tmp_path):
    assert read(tmp_path, [LISTED]) == ((SMALL,), [])
    (flavor,), mistakes = read(tmp_path, SHOWN)
    assert (flavor.ephemeral_gb, flavor.swap, mistakes) == (1, 512, [])


def test_yaml_is_read(tmp_path):
    specs = "properties: {'hw:cpu_policy': dedicated}"
    text = f"- {{name: small, id: 1, vcpus: 2, ram: 2048, disk: 20, {specs}}}"
    assert read(tmp_path, text, "flavors.yaml") == ((SMALL,), [])


def test_a_mistake_in_yaml_names_line_and_key(tmp_path):
    text = "- name: small\n  vcpus: 2\n  ram: two\n  disk: 20\n- 7\n"
    _, mistakes = read(tmp_path, text, "flavors.yaml")
    assert mistakes == [
        "line 3, ram: must be a whole number from 1 to 2147483647",
        "line 1: has no Properties or properties: use flavor list --long",
        "line 5: must be a flavor: a mapping of its properties",
    ]


def test_what_older_clients_print_is_read(tmp_path):
    older = {**LISTED, "Swap": "", "Properties": "hw:cpu_policy='dedicated', a:b='x, y'"}
    ((flavor,), _) = read(tmp_path, [older])
    assert flavor.extra_specs == {**PINNED, "a:b": "x, y"}
    assert flavor.swap == 0


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        ({"RAM": "2 GB"}, "line 19, RAM: must be a whole number from 1 to 2147483647"),
        ({"VCPUs": 0}, "line 22, VCPUs: must be a whole number from 1 to 2147483647"),
        ({"VCPUs": True}, "line 22, VCPUs: must be a whole number from 1 to 2147483647"),
        ({"Name": ""}, "line 18, Name: must be a text of 1 to 255 characters"),
        ({"Name": "small"}, "line 18, Name: flavor small is there twice, first in line 2"),
        ({"Properties": {"a": True}}, "line 26, Properties: a: must be a text: put it in quotes"),
        ({"Properties": "a=b"}, "line 26, Properties: must be a mapping, or KEY='VALUE' pairs"
         " joined by commas"),
        ({"vCPU": 2}, "line 29, vCPU: is no property of a flavor"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_and_key(change, mistake, tmp_path):
    (flavor,), mistakes = read(tmp_path, [LISTED, {**LISTED, "Name": "other", **change}])
    assert mistakes == [mistake]
    assert flavor == SMALL


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[\n{,}]", "line 2, column 2: Expecting property name enclosed in"),
        ("", "line 1, column 1: Expecting value"),
        ("[" * 100_000, "a value is too long, or nested too deep"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(text, mistake, tmp_path):
    flavors, (found,) = read(tmp_path, text)
    assert (flavors, found.startswith(mistake)) == ((), True)


def test_a_reload_applies_the_flavors_that_were_checked(tmp_path):
    file, conf = tmp_path / "flavors.json", tmp_path / "rtagent.conf"
    conf.write_text(f"[capacity]\nflavors_file = {file}\n")
    file.write_text(json.dumps([LISTED]))
    parsed = load.parse(cfg.ConfigOpts(), [f"--config-file={conf}"], "rtagent")
    before = load.read(parsed)
    file.write_text("[")
    settings, mistakes = load.judge(parsed, before)
    assert (settings.flavors, mistakes) == ((SMALL,), {})


def test_a_relative_path_is_refused():
    ((), (relative,)) = read_flavors("flavors.json")
    assert "must be absolute" in str(relative)


def test_ten_thousand_flavors_are_read(tmp_path):
    many = [{**LISTED, "Name": f"f{number}"} for number in range(10_000)]
    flavors, mistakes = read(tmp_path, many)
    assert (len(flavors), mistakes) == (10_000, [])
