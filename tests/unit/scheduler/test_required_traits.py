"""The traits that a host needs for what a flavor and an image ask for."""

import pytest

from rtagent.errors import FlavorImageConflict, PropertyConflict, PropertyInvalid
from rtagent.model.request import PciRequest
from rtagent.model.server import ImageRequest
from rtagent.scheduler.required_traits import required_traits
from tests.support.scheduling import spec

SECURE_BOOT = "COMPUTE_SECURITY_UEFI_SECURE_BOOT"
TPM_2_0 = {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}
DISKS, LUKS = "COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"


def traits(extra_specs, image=None):
    image = ImageRequest(properties=image or {})
    return required_traits(spec(extra_specs=extra_specs, image=image))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("os:secure_boot", "required", {SECURE_BOOT}),
        ("os:secure_boot", "optional", set()),
        ("os:secure_boot", "", set()),
        ("hw:tpm_version", "2.0", TPM_2_0),
        ("hw:tpm_version", "1.2", {"COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_TIS"}),
        ("hw:tpm_model", "tpm-crb", set()),
        ("hw:maxphysaddr_mode", "emulate", {"COMPUTE_ADDRESS_SPACE_EMULATED"}),
        ("hw:maxphysaddr_mode", "passthrough", {"COMPUTE_ADDRESS_SPACE_PASSTHROUGH"}),
        ("hw:virtio_packed_ring", "true", {"COMPUTE_NET_VIRTIO_PACKED"}),
        ("hw:virtio_packed_ring", "no", set()),
        ("hw:sound_model", "virtio", {"COMPUTE_SOUND_MODEL_VIRTIO"}),
        ("hw:sound_model", "ich9", set()),
        ("hw:ephemeral_encryption", "true", {DISKS}),
        ("hw:ephemeral_encryption_format", "luks", set()),
    ],
)
def test_the_flavor_or_the_image_requires_traits(name, value, expected):
    assert traits({name: value}) == expected
    assert traits({}, {name.replace(":", "_"): value}) == expected


def test_properties_that_count_together():
    crb = {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_CRB"}
    assert traits({"hw:tpm_version": "2.0"}, {"hw_tpm_model": "tpm-crb"}) == crb
    encrypted = {"hw_ephemeral_encryption_format": "luks"}
    assert traits({"hw:ephemeral_encryption": "yes"}, encrypted) == {DISKS, LUKS}


@pytest.mark.parametrize("value", ["True", "False", None])
def test_ports_that_are_managed_remotely(value):
    criteria = {"physical_network": None} if value is None else {"remote_managed": value}
    port = PciRequest(count=1, request_id="port", spec=(criteria,), source="neutron_port")
    required = required_traits(spec(pci_requests=(port,)))
    assert required == ({"COMPUTE_REMOTE_MANAGED_PORTS"} if value == "True" else set())


def test_properties_of_one_side():
    assert traits({"accel:device_profile": "gpu"}) == {"COMPUTE_ACCELERATORS"}
    stateless = {"hw_firmware_stateless": "true"}
    assert traits({}, {**stateless, "hw_firmware_type": "bios"}) == set()
    firmware = {"COMPUTE_SECURITY_STATELESS_FIRMWARE"}
    assert traits({}, {**stateless, "hw_firmware_type": "uefi"}) == firmware


@pytest.mark.parametrize(
    ("extra_specs", "image", "error"),
    [
        ({"os:secure_boot": "yes"}, {}, PropertyInvalid),
        ({"hw:tpm_version": "3"}, {}, PropertyInvalid),
        ({"hw:tpm_version": "1.2", "hw:tpm_model": "tpm-crb"}, {}, PropertyConflict),
        ({"os:secure_boot": "required"}, {"os_secure_boot": "disabled"}, FlavorImageConflict),
        ({"hw:virtio_packed_ring": "no"}, {"hw_virtio_packed_ring": "yes"}, FlavorImageConflict),
    ],
)
def test_an_impossible_value_is_an_error(extra_specs, image, error):
    with pytest.raises(error):
        traits(extra_specs, image)
