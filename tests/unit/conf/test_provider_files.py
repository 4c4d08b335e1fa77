"""Provider files: the format, its rules, and what is said about each wrong field."""

import os
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from rtagent.conf.provider_files import read_files
from rtagent.conf.provider_yaml import MAX_BYTES, MAX_LISTED, MAX_VALUES
from rtagent.errors import ConfigError
from rtagent.model.base import MAX_INT
from tests.support.hosts import uid
from tests.support.provider_files import (
    CLASS,
    TRAIT,
    added,
    document,
    entry,
    example,
    provider_files,
    write,
)

ETC = Path(__file__).resolve().parents[3] / "etc" / "rtagent"
CUSTOM = "only names of the form CUSTOM_[A-Z0-9_]+ can be added; the agent sets all others"


def mistakes(directory: Path, content: Any, name: str = "a.yaml") -> list[str]:
    """Return what is wrong with a file, without its path."""
    text = content if isinstance(content, str | bytes) else yaml.safe_dump(content)
    file = directory / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    _, errors = read_files(str(directory))
    assert all(isinstance(error, ConfigError) for error in errors)
    assert all(str(error).startswith(f"{file}: ") for error in errors)
    return [str(error).removeprefix(f"{file}: ") for error in errors]


def test_every_field_is_read(tmp_path):
    (found,) = provider_files(tmp_path, example()).entries

    assert found.origin == f"{tmp_path}/a.yaml: $.providers[0]"
    assert (found.uuid, found.name, found.traits) == ("$COMPUTE_NODE", None, frozenset({TRAIT}))
    assert found.inventories == (added(total=22, max_unit=11),)


def test_absent_fields_have_the_defaults_of_placement(tmp_path):
    uuid = "5213B75D-9260-42A6-B236-F39B0FD10561"
    (found,) = provider_files(tmp_path, entry({"uuid": uuid}, {CLASS: {"total": 3}})).entries

    (inventory,) = found.inventories
    assert (inventory.reserved, inventory.min_unit, inventory.step_size) == (0, 1, 1)
    assert (inventory.max_unit, inventory.allocation_ratio) == (MAX_INT, Decimal(1))
    assert (found.uuid, found.name) == (uuid.lower(), None)


def test_files_and_links_are_read_in_the_order_of_their_names_also_beside_a_wrong_one(tmp_path):
    write(tmp_path, "c.yaml", entry({"name": "third"}, {CLASS: {"total": 1}}))
    (tmp_path / "b.yaml").write_text("[")
    first = write(tmp_path / "real", "x", entry({"name": "first"}, {CLASS: {"total": 1}}))
    (tmp_path / "a.yaml").symlink_to(first)
    for other in ("c.yml", ".d.yaml", "e.yaml.orig"):
        (tmp_path / other).write_text("not: read")

    files, errors = read_files(str(tmp_path))

    assert [each.name for each in files.entries] == ["first", "third"]
    assert [Path(error.kwargs["file"]).name for error in errors] == ["b.yaml"]


def test_sample_file_can_be_used(tmp_path):
    shutil.copy(ETC / "provider_config.yaml.sample", tmp_path / "a.yaml")

    files, errors = read_files(str(tmp_path))

    assert (errors, files.doubts) == ([], ())
    assert [len(each.inventories) for each in files.entries] == [1, 0]
    assert all(each.traits for each in files.entries)


@pytest.mark.parametrize("location", ["", "/nonexistent/provider_config"])
def test_absent_directory_adds_nothing(location):
    files, errors = read_files(location)

    assert (files.entries, files.doubts, errors) == ((), (), [])


def test_aliases_and_merge_keys_of_yaml_can_be_used(tmp_path):
    text = f"""
meta: {{schema_version: '1.0'}}
providers:
  - identification: {{name: one}}
    inventories: {{additional: [{{{CLASS}: &llc {{total: 4, reserved: 1}}}}]}}
  - identification: {{name: two}}
    inventories: {{additional: [{{{CLASS}: {{<<: *llc, total: 5}}}}]}}
"""
    assert mistakes(tmp_path, text) == []
    files, _ = read_files(str(tmp_path))
    sizes = [(each.total, each.reserved) for item in files.entries for each in item.inventories]
    assert sizes == [(4, 1), (5, 1)]


# -- every field wrong in turn ---------------------------------------------------------------------

IDENTITY = ("providers", 0, "identification")
CLASSES = ("providers", 0, "inventories", "additional", 0)
INVENTORY = (*CLASSES, CLASS)
TRAITS = ("providers", 0, "traits", "additional", 0)
VERSION = ("meta", "schema_version")
#: Names that are not custom ones.
OTHERS = ("VCPU", "custom_llc", "CUSTOM_", "CUSTOM_L-L", "LLC", "CUSTOM_L\n", "")


@pytest.mark.parametrize(
    ("path", "value", "mistake"),
    [
        (INVENTORY, {"reserved": 1}, ".total: is required"),
        (INVENTORY, {"total": 2, "reserved": 3}, ".reserved: must be at most the total (2)"),
        (INVENTORY, {"total": 2, "min_unit": 3, "max_unit": 2}, ".min_unit: must be at most"),
        (INVENTORY, {"total": 2, "Total": 2}, ".Total: is not a field here"),
        ((*CLASSES[:-1], 1), {CLASS: {"total": 1}}, f".{CLASS}: the resource class is added twice"),
        (IDENTITY, {}, ": must have a uuid or a name"),
        (IDENTITY, {"uuid": uid(), "name": "hv1"}, ": must have a uuid or a name"),
        (IDENTITY, {"uuid": "hv1"}, ".uuid: must be a uuid with its dashes"),
        (IDENTITY, {"uuid": f"{uid()}\n"}, ".uuid: must be a uuid with its dashes"),
        (IDENTITY, {"name": "$COMPUTE_NODE"}, ".name: must be written as uuid:"),
        (IDENTITY, {"name": "x" * 201}, ".name: must have at most 200 characters"),
        (VERSION, 1.0, ": must be in quotes"),
        (VERSION, "1", ": must be '1.0', or a later 1.x"),
        (VERSION, "1.0\n", ": must be '1.0', or a later 1.x"),
        (("meta",), {}, ".schema_version: is required"),
        *((CLASSES, {name: {"total": 1}}, f".{name}: {CUSTOM}") for name in OTHERS),
        *((TRAITS, name, f": {name}: {CUSTOM}") for name in OTHERS),
        (("__source_file",), "x", ": is reserved, and must not be in a file"),
    ],
)
def test_wrong_part_is_refused(tmp_path, path, value, mistake):
    made: Any = document(example())
    part = made
    for step in path[:-1]:
        part = part[step]
    if path[-1] == len(part):
        part.append(value)
    else:
        part[path[-1]] = value

    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    *_, found = mistakes(tmp_path, made)
    assert found.startswith(f"${place}{mistake}".replace("\n", "\\n"))


@pytest.mark.parametrize(
    "identification", [{"uuid": "$COMPUTE_NODE"}, {"uuid": uid()}, {"name": "hv1"}]
)
def test_provider_is_described_once(tmp_path, identification):
    """In one file, and in all files."""
    item = {**example(), "identification": identification}
    (shown,) = identification.values()

    again = mistakes(tmp_path, document(item, item))
    first = write(tmp_path, "0.yaml", item)
    files, errors = read_files(str(tmp_path))

    rule = f"provider {shown} is described a second time, first in"
    assert again == [f"$.providers[1]: {rule} {tmp_path}/a.yaml: $.providers[0]"]
    assert [str(error) for error in errors] == [
        f"{tmp_path}/a.yaml: $.providers[{at}]: {rule} {first}: $.providers[0]" for at in (0, 1)
    ]
    assert files.entries


# -- files that are not documents ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "$: must be an object, not null"),
        ("meta: [", "line 1, column 8: expected the node content, but found '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: but found another document"),
        ("meta: {schema_version: '1.0', schema_version: '1.0'}", "the key is in the mapping twice"),
        ("meta: &a [*a]", "line 1, column 7: an alias stands for a value that contains it"),
        ("1: 2\nmeta: {schema_version: '1.0'}", "$: keys must be strings, not int"),
        ("meta: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("meta: " + "9" * 5000, "a value is not valid for its type"),
        (b"meta: \xff", "character 6: invalid start byte"),
        ("[" * 10_000, "the document has more than 32 levels"),
        ("x" * (MAX_BYTES + 1), f"has more than {MAX_BYTES} bytes"),
    ],
)
def test_file_that_is_no_document_is_refused(tmp_path, text, mistake):
    (found,) = mistakes(tmp_path, text)

    assert mistake in found
    assert found.isprintable() and len(found) < 700


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_nested_aliases_are_bounded(tmp_path, form):
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, 30):
        below = ", ".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} {form.format(below)}")

    (mistake,) = mistakes(tmp_path, "\n".join(lines))

    assert mistake.endswith(f"the document has more than {MAX_VALUES} values")


def test_one_file_describes_hundreds_of_hosts(tmp_path):
    names = ({"name": f"hypervisor-{at}.region.example.org"} for at in range(600))
    hosts = [{**example(), "identification": name} for name in names]

    assert len(provider_files(tmp_path, *hosts).entries) == 600


def test_first_mistakes_of_a_file_are_listed(tmp_path):
    wrong = mistakes(tmp_path, document(*[{} for _ in range(100)]))

    assert len(wrong) == MAX_LISTED + 1
    assert wrong[-1] == f"and {100 - MAX_LISTED} more mistakes"


# -- files that cannot be read ---------------------------------------------------------------------


def test_what_is_not_a_readable_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "b.yaml").mkdir()
    (tmp_path / "c.yaml").symlink_to(tmp_path / "missing")
    (tmp_path / "d.yaml").symlink_to(tmp_path / "d.yaml")

    _, errors = read_files(str(tmp_path))

    assert [str(error).removeprefix(f"{tmp_path}/") for error in errors] == [
        "a.yaml: is not a regular file",
        "b.yaml: cannot be read: Is a directory",
        "c.yaml: cannot be read: No such file or directory",
        "d.yaml: cannot be read: Too many levels of symbolic links",
    ]


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("file", "cannot be listed: Not a directory"),
        ("link", "is a link to a directory that is missing"),
        ("", "[compute] provider_config_location must be absolute"),
    ],
)
def test_location_that_is_not_a_directory_is_refused(tmp_path, place, why):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    location = str(tmp_path / place) if place else "etc"

    _, (error,) = read_files(location)

    assert str(error) == f"{location}: {why}"


def test_name_of_a_file_need_not_be_unicode(tmp_path):
    directory = os.fsencode(tmp_path)
    for name, text in ((b"\xff.yaml", b"["), (b"\xfe.yaml", yaml.safe_dump(document(example())))):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    files, errors = read_files(str(tmp_path))

    assert [each.file for each in files.entries] == [f"{tmp_path}/\\udcfe.yaml"]
    assert [error.kwargs["file"] for error in errors] == [f"{tmp_path}/\\udcff.yaml"]


# -- doubts ----------------------------------------------------------------------------------------


def test_what_has_no_effect_is_a_doubt(tmp_path):
    item = {**example(), "trait": [TRAIT], "traits": {"required": []}}
    content = {**document(item, entry({"name": "hv1"}), version="1.7"), "more": 1}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(content))

    files, errors = read_files(str(tmp_path))

    assert errors == []
    assert [doubt.removeprefix(f"{tmp_path}/a.yaml: ") for doubt in files.doubts] == [
        "$.more: is not a field of schema 1.0; it is ignored",
        "$.providers[0].trait: is not a field of schema 1.0; it is ignored",
        "$.providers[0].traits.required: is not a field of schema 1.0; it is ignored",
        "$.providers[1]: adds no inventory and no trait; it is ignored",
    ]
    assert [each.path for each in files.entries] == ["$.providers[0]"]
