"""Parsers of values that operators and callers write: ids, and names of classes and traits."""

import pytest

from rtagent.pci.parsing import InvalidValue, parse_resource_class, parse_traits

#: By Nova's documentation of [pci] device_spec and alias: standard names are kept, others are made
#: upper case, get one _ for consecutive other characters, and CUSTOM_ unless they have it.
RESOURCE_CLASSES = [
    ("vGpu", "VGPU"),
    ("gpu", "CUSTOM_GPU"),
    ("custom_gpu", "CUSTOM_GPU"),
    ("CUSTOM_A__B", "CUSTOM_A__B"),
    ("Custom_a-b", "CUSTOM_A_B"),
    # The prefix is looked for in the name as it is written.
    ("custom-foo", "CUSTOM_CUSTOM_FOO"),
    ("a.-_b", "CUSTOM_A_B"),
    # So is the standard name.
    ("v gpu", "CUSTOM_V_GPU"),
    ("größe", "CUSTOM_GR_SSE"),
    ("", None),
]
TRAITS = [
    # Standard traits are written in upper case, other than standard classes.
    ("hw_gpu_api_vulkan", {"CUSTOM_HW_GPU_API_VULKAN"}),
    ("HW_GPU_API_VULKAN,my-awesome-gpu", {"HW_GPU_API_VULKAN", "CUSTOM_MY_AWESOME_GPU"}),
    # A blank is a character that a name cannot have, like any other.
    ("a, b,,A", {"CUSTOM_A", "CUSTOM__B"}),
]


@pytest.mark.parametrize(("written", "expected"), RESOURCE_CLASSES)
def test_resource_class_has_the_name_that_nova_gives_it(written, expected):
    assert parse_resource_class(written) == expected


@pytest.mark.parametrize(("written", "expected"), TRAITS)
def test_traits_have_the_names_that_nova_gives_them(written, expected):
    assert parse_traits(written) == expected


@pytest.mark.parametrize("wrong", [None, 1, True, "x" * 249, "custom_" + "x" * 249, "CUSTOM_"])
def test_what_cannot_be_a_name_is_invalid(wrong):
    for parse in (parse_resource_class, parse_traits):
        with pytest.raises(InvalidValue, match=r"must be a string|1 to 248 characters"):
            parse(wrong)
