"""The encryption of memory that a flavor and an image request."""

import pytest

from rtagent.allocation.requirements import requested_encryption
from rtagent.errors import FlavorImageConflict, PropertyConflict, PropertyInvalid
from rtagent.numa.properties import Properties

UEFI = {"hw_firmware_type": "uefi"}
Q35 = {**UEFI, "hw_machine_type": "pc-q35-9.0"}


def requested(flavor: dict[str, str], image: dict[str, str]) -> str | None:
    return requested_encryption(
        Properties(vcpus=1, memory_mb=64, extra_specs=flavor, image={**UEFI, **image})
    )


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ({}, {}, None),
        ({"hw:mem_encryption": "false"}, {}, None),
        ({"hw:mem_encryption": ""}, {"hw_mem_encryption": "no"}, None),
        ({"hw:mem_encryption": "true"}, {}, "amd-sev"),
        ({}, {"hw_mem_encryption": "True"}, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_mem_encryption": "yes"}, "amd-sev"),
        ({"hw:mem_encryption": "1", "hw:mem_encryption_model": "amd-sev"}, {}, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_mem_encryption_model": "amd-sev-es"}, "amd-sev-es"),
        ({"hw:mem_encryption": "1"}, Q35, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_machine_type": "q35"}, "amd-sev"),
    ],
)
def test_either_side_requests_a_model(flavor, image, expected):
    assert requested(flavor, image) == expected


YES, ES = {"hw:mem_encryption": "yes"}, {"hw:mem_encryption_model": "amd-sev-es"}


@pytest.mark.parametrize(
    ("flavor", "image", "error", "named"),
    [
        (YES, {"hw_mem_encryption": "no"}, FlavorImageConflict, "hw_mem_encryption=no"),
        (
            {**YES, **ES},
            {"hw_mem_encryption_model": "amd-sev"},
            FlavorImageConflict,
            "hw_mem_encryption_model=amd-sev",
        ),
        (YES, {"hw_firmware_type": "bios"}, PropertyConflict, "hw_firmware_type=bios"),
        (YES, {"hw_firmware_type": ""}, PropertyConflict, "needs hw_firmware_type=uefi"),
        (YES, {"hw_machine_type": "pc-i440fx"}, PropertyConflict, "hw_machine_type=pc-i440fx"),
        (ES, {}, PropertyConflict, "hw:mem_encryption_model=amd-sev-es"),
        ({**ES, "hw:mem_encryption": "no"}, {}, PropertyConflict, "hw:mem_encryption=no"),
        ({"hw:mem_encryption": "maybe"}, {}, PropertyInvalid, "hw:mem_encryption=maybe"),
        (
            {**YES, "hw:mem_encryption_model": "intel-tdx"},
            {},
            PropertyInvalid,
            "hw:mem_encryption_model=intel-tdx: must be one of amd-sev, amd-sev-es",
        ),
        ({}, {"hw_mem_encryption_model": "amd-sev-snp"}, PropertyInvalid, "amd-sev-snp"),
    ],
)
def test_what_no_guest_can_have_is_refused_with_its_properties(flavor, image, error, named):
    with pytest.raises(error) as refused:
        requested(flavor, image)
    assert named in str(refused.value)
