"""Parsers of values that operators and callers write: ids, and names of classes and traits."""

import os_resource_classes
import os_traits
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rtagent.pci.parsing import InvalidValue, parse_hex_id, parse_resource_class, parse_traits

#: What a name of Placement may have, and what it may not.
NAMES = st.text("aZ_09- .éß", min_size=1, max_size=12)
NAME = "^CUSTOM_[A-Z0-9_]+$"

#: By Nova's documentation of [pci] device_spec and alias: standard names are kept, others are made
#: upper case, get one _ for consecutive other characters, and CUSTOM_ unless they have it.
RESOURCE_CLASSES = [
    ("PGPU", "PGPU"),
    ("pgpu", "PGPU"),
    ("vGpu", "VGPU"),
    ("gpu", "CUSTOM_GPU"),
    ("custom_gpu", "CUSTOM_GPU"),
    ("CUSTOM_GPU", "CUSTOM_GPU"),
    ("CUSTOM_A__B", "CUSTOM_A__B"),
    ("Custom_a-b", "CUSTOM_A_B"),
    # The prefix is looked for in the name as it is written.
    ("custom-foo", "CUSTOM_CUSTOM_FOO"),
    ("custom foo", "CUSTOM_CUSTOM_FOO"),
    ("my-super  gpu", "CUSTOM_MY_SUPER_GPU"),
    ("a.-_b", "CUSTOM_A_B"),
    # So is the standard name.
    ("v gpu", "CUSTOM_V_GPU"),
    ("vcpu!", "CUSTOM_VCPU_"),
    ("straße", "CUSTOM_STRASSE"),
    ("größe", "CUSTOM_GR_SSE"),
    ("", None),
]
TRAITS = [
    ("", set()),
    ("HW_GPU_API_VULKAN", {"HW_GPU_API_VULKAN"}),
    # Standard traits are written in upper case, other than standard classes.
    ("hw_gpu_api_vulkan", {"CUSTOM_HW_GPU_API_VULKAN"}),
    ("HW_GPU_API_VULKAN,my-awesome-gpu", {"HW_GPU_API_VULKAN", "CUSTOM_MY_AWESOME_GPU"}),
    ("custom_a,CUSTOM_B,custom-c", {"CUSTOM_A", "CUSTOM_B", "CUSTOM_CUSTOM_C"}),
    ("COMPUTE_NOT_A_TRAIT", {"CUSTOM_COMPUTE_NOT_A_TRAIT"}),
    ("a,a,A", {"CUSTOM_A"}),
    # A blank is a character that a name cannot have, like any other.
    ("a, b", {"CUSTOM_A", "CUSTOM__B"}),
    ("a,,b,", {"CUSTOM_A", "CUSTOM_B"}),
]


@pytest.mark.parametrize(("written", "expected"), RESOURCE_CLASSES)
def test_resource_class_has_the_name_that_nova_gives_it(written, expected):
    assert parse_resource_class(written) == expected


@pytest.mark.parametrize(("written", "expected"), TRAITS)
def test_traits_have_the_names_that_nova_gives_them(written, expected):
    assert parse_traits(written) == expected


@given(NAMES)
@example("custom_")
def test_any_name_becomes_one_that_placement_accepts(written):
    name = written.upper()
    if name == "CUSTOM_":
        with pytest.raises(InvalidValue, match="1 to 248 characters"):
            parse_resource_class(written)
        return
    parsed = parse_resource_class(written)
    assert parsed is not None
    assert set(parsed) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
    assert parsed.startswith("CUSTOM_")
    assert parse_resource_class(parsed) == parsed
    assert parse_traits(written) == {parsed}


def test_standard_names_are_kept():
    for name in os_resource_classes.STANDARDS:
        assert parse_resource_class(name.lower()) == name
    for name in os_traits.get_traits():
        assert parse_traits(name) == {name}
        assert parse_traits(name.lower()) == {f"CUSTOM_{name}"}


@pytest.mark.parametrize("wrong", [None, 1, True, "x" * 249, "custom_" + "x" * 249, "CUSTOM_"])
def test_what_cannot_be_a_name_is_invalid(wrong):
    for parse in (parse_resource_class, parse_traits):
        with pytest.raises(InvalidValue, match=r"must be a string|1 to 248 characters"):
            parse(wrong)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("8086", "8086"),
        ("0x8086", "8086"),
        ("0X10DE", "10de"),
        (" 0x1 ", "0001"),
        ("00001", "0001"),
    ],
)
def test_hexadecimal_ids_may_have_a_prefix(written, expected):
    assert parse_hex_id(written) == expected


@pytest.mark.parametrize("wrong", ["", "0x", "x8086", "0x10000", "80 86", "0x0x1", 8086, None])
def test_invalid_ids(wrong):
    with pytest.raises(InvalidValue):
        parse_hex_id(wrong)
