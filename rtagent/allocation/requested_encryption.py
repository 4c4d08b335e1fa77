"""The encryption of memory that a flavor or an image requests, with Nova's rules."""

from __future__ import annotations

from rtagent.model.mem_encryption import AMD_SEV, MODELS
from rtagent.numa.properties import Pair, Properties, conflict, overriding

ENCRYPTION, MODEL = "hw:mem_encryption", "hw:mem_encryption_model"
FIRMWARE, MACHINE = "hw:firmware_type", "hw:machine_type"


def requested_encryption(properties: Properties) -> str | None:
    """Return the model of encryption that a guest requests; None: none.

    The firmware must be UEFI and the machine type q35. The machine type may be unset: then the
    caller chooses it.

    :raises PropertyInvalid: the model is unknown.
    :raises PropertyConflict: the firmware or the machine type does not support it, or only a model
        is requested.
    :raises FlavorImageConflict: the flavor and the image differ.
    """
    asked = properties.pair(ENCRYPTION)
    requested = _requested(asked)
    model = properties.agreed(MODEL)
    if model is not None:
        model.one_of(MODELS)
    if not requested:
        if model is not None:
            rule = f"a model of memory encryption needs {ENCRYPTION}, or the image property, = true"
            raise conflict(rule, model, *asked)
        return None
    _check_machine(properties, asked)
    return model.value if model is not None else AMD_SEV


def _requested(asked: Pair) -> bool:
    answers = {each.boolean() for each in asked if each is not None}
    if len(answers) > 1:
        raise overriding("the flavor and the image must agree on memory encryption", *asked)
    return True in answers


def _check_machine(properties: Properties, asked: Pair) -> None:
    firmware, machine = properties.pair(FIRMWARE).image, properties.pair(MACHINE).image
    if firmware is None or firmware.value != "uefi":
        raise conflict("memory encryption needs hw_firmware_type=uefi", *asked, firmware)
    if machine is not None and "q35" not in machine.value:
        raise conflict("memory encryption needs the machine type q35", *asked, machine)
