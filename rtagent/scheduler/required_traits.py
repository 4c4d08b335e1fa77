"""The traits that a host needs for what a flavor and an image ask for and no agent judges. Pure.

Agents publish them, and only Placement judges them, as in Nova. What an agent judges by itself when
it fits a claim has no trait here: the policies of threads and of devices. Only ports that are
managed remotely have one, because few of the hosts that Placement returns may have such devices.
"""

from collections.abc import Iterator, Mapping

import os_traits

from rtagent.model.base import BOOLEANS
from rtagent.model.server import RequestSpec
from rtagent.numa.properties import Properties, conflict

#: By property, the traits of its values; None: the value needs none.
_VALUES: Mapping[str, Mapping[str, str | None]] = {
    "os:secure_boot": {
        "required": os_traits.COMPUTE_SECURITY_UEFI_SECURE_BOOT,
        "optional": None,
        "disabled": None,
    },
    "hw:maxphysaddr_mode": {
        "emulate": os_traits.COMPUTE_ADDRESS_SPACE_EMULATED,
        "passthrough": os_traits.COMPUTE_ADDRESS_SPACE_PASSTHROUGH,
    },
    "hw:sound_model": {
        "virtio": "COMPUTE_SOUND_MODEL_VIRTIO",  # which the os-traits of Nova 31 lacks
        **dict.fromkeys(("ac97", "es1370", "ich6", "ich9", "pcspk", "sb16", "usb")),
    },
}
_TPM_VERSIONS = {
    "1.2": os_traits.COMPUTE_SECURITY_TPM_1_2,
    "2.0": os_traits.COMPUTE_SECURITY_TPM_2_0,
}
_TPM_MODELS = {
    "tpm-tis": os_traits.COMPUTE_SECURITY_TPM_TIS,
    "tpm-crb": os_traits.COMPUTE_SECURITY_TPM_CRB,
}
_DISK_FORMATS = {
    "luks": os_traits.COMPUTE_EPHEMERAL_ENCRYPTION_LUKS,
    "plain": os_traits.COMPUTE_EPHEMERAL_ENCRYPTION_PLAIN,
}


def required_traits(spec: RequestSpec) -> frozenset[str]:
    """Return the traits that the flavor and the image require by other properties than ``trait:``.

    :raises PropertyInvalid: PropertyConflict: a value is unknown, or a TPM is impossible.
    :raises FlavorImageConflict: the flavor and the image differ.
    """
    properties = Properties(
        vcpus=spec.flavor.vcpus,
        memory_mb=spec.flavor.memory_mb,
        extra_specs=spec.flavor.extra_specs,
        image=spec.image.properties,
    )
    return frozenset((*_required(properties), *_of_ports(spec)))


def _of_ports(spec: RequestSpec) -> Iterator[str]:
    for request in spec.pci_requests:
        values = [str(criteria.get("remote_managed")).lower() for criteria in request.spec]
        if values and all(map(BOOLEANS.get, values)):
            yield os_traits.COMPUTE_REMOTE_MANAGED_PORTS


def _required(properties: Properties) -> Iterator[str]:
    for name, traits in _VALUES.items():
        asked = properties.agreed(name)
        trait = traits[asked.one_of(tuple(traits))] if asked is not None else None
        if trait is not None:
            yield trait
    yield from _tpm(properties)
    if _is_on(properties, "hw:virtio_packed_ring"):
        yield os_traits.COMPUTE_NET_VIRTIO_PACKED
    if _is_on(properties, "hw:ephemeral_encryption"):
        yield os_traits.COMPUTE_EPHEMERAL_ENCRYPTION
        disk_format = properties.agreed("hw:ephemeral_encryption_format")
        if disk_format is not None:
            yield _DISK_FORMATS[disk_format.one_of(tuple(_DISK_FORMATS))]
    stateless = properties.pair("hw:firmware_stateless").image
    firmware = properties.pair("hw:firmware_type").image
    if stateless and stateless.boolean() and firmware and firmware.value == "uefi":
        yield os_traits.COMPUTE_SECURITY_STATELESS_FIRMWARE
    if properties.extra_spec("accel:device_profile"):
        yield os_traits.COMPUTE_ACCELERATORS


def _tpm(properties: Properties) -> Iterator[str]:
    version = properties.agreed("hw:tpm_version")
    if version is None:
        return
    yield _TPM_VERSIONS[version.one_of(tuple(_TPM_VERSIONS))]
    model = properties.agreed("hw:tpm_model")
    name = "tpm-tis" if model is None else model.one_of(tuple(_TPM_MODELS))
    if name == "tpm-crb" and version.value != "2.0":
        raise conflict("the model tpm-crb needs version 2.0", model, version)
    yield _TPM_MODELS[name]


def _is_on(properties: Properties, name: str) -> bool:
    asked = properties.pair(name)
    answers = {side.boolean() for side in asked if side is not None}
    if len(answers) > 1:
        raise asked.conflict("the image may not differ from the flavor")
    return True in answers
