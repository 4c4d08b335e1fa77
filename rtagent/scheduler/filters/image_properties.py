"""ImagePropertiesFilter: hosts that can run the image."""

from collections.abc import Callable, Mapping
from functools import cache

from oslo_utils.versionutils import VersionPredicate, convert_version_to_str

from rtagent.conf.scheduler import ARCHITECTURE_NAMES
from rtagent.model.base import Value
from rtagent.model.schema_errors import step
from rtagent.scheduler.filter import Check, Filter, Rejection, Request, invalid
from rtagent.scheduler.host_state import HostState


class KnownNames(Value, frozen=True):
    """:ivar names: the valid names. :ivar aliases: older names that images may still have."""

    names: frozenset[str]
    aliases: Mapping[str, str] = {}

    def canonical(self, name: str) -> str | None:
        """Return the valid name, in lower case; None: there is none."""
        lowered = name.lower()
        found = self.aliases.get(lowered, lowered)
        return found if found in self.names else None


ARCHITECTURES = KnownNames(
    frozenset(ARCHITECTURE_NAMES),
    {**dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"), "amd64": "x86_64"},
)
HYPERVISOR_TYPES = KnownNames(
    frozenset(
        {
            *("baremetal", "bhyve", "docker", "fake", "hyperv", "ironic", "kqemu", "kvm"),
            *("lxc", "lxd", "openvz", "parallels", "phyp", "prsm", "qemu", "test"),
            *("uml", "vbox", "vmware", "vz", "xen", "zvm"),
        }
    ),
    {"xapi": "xen"},
)
VM_MODES = KnownNames(
    frozenset({"hvm", "xen", "uml", "exe"}), {"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
)


#: Older names of properties. The current name comes first.
_OLD_NAMES = {
    "hw_architecture": "architecture",
    "img_hv_type": "hypervisor_type",
    "hw_vm_mode": "vm_mode",
    "img_hv_requested_version": "hypervisor_version_requires",
}


class _Wanted(Value, frozen=True):
    """What an image needs.

    :ivar guest: architecture, hypervisor type, VM mode; None: any.
    :ivar version: whether a version of the hypervisor, as libvirt's number, will do; None: any.
    :ivar address_bits: physical address bits of a guest CPU.
    """

    guest: tuple[str | None, str | None, str | None]
    version: Callable[[int], bool] | None
    address_bits: int | None


class ImagePropertiesFilter(Filter):
    """Refuse a host that does not support the architecture, hypervisor type, VM mode, hypervisor
    version or physical address bits that the image needs.
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge images with one of these properties, or all if there is a default architecture.

        :raises InvalidRequest: the value of a property is not valid.
        """
        properties = request.spec.image.properties
        default = self.options.image_properties_default_architecture
        wanted = _Wanted(
            (
                _kind(properties, "hw_architecture", ARCHITECTURES, default),
                _kind(properties, "img_hv_type", HYPERVISOR_TYPES),
                _kind(properties, "hw_vm_mode", VM_MODES),
            ),
            _version(properties),
            _address_bits(properties),
        )
        if not any((*wanted.guest, wanted.version, wanted.address_bits)):
            return None
        return lambda host: _judge(host, wanted)


def _judge(host: HostState, wanted: _Wanted) -> Rejection | None:
    if any(wanted.guest) and not any(
        _supports(each, wanted.guest) for each in host.supported_instances
    ):
        described = ", ".join(each for each in wanted.guest if each)
        return Rejection(f"it does not support guests with {described}")
    number = host.hypervisor_version
    if wanted.version is not None and number and not wanted.version(number):
        version = convert_version_to_str(number)
        return Rejection(f"its hypervisor has version {version}, which the image excludes")
    if wanted.address_bits:
        bits = _bits_of(host)
        if bits is not None and bits < wanted.address_bits:
            return Rejection(
                f"its CPUs have {bits} physical address bits, of {wanted.address_bits} needed"
            )
    return None


def _supports(supported: tuple[str, str, str], guest: tuple[str | None, ...]) -> bool:
    return all(each is None or each == has for each, has in zip(guest, supported, strict=True))


def _bits_of(host: HostState) -> int | None:
    addresses = host.cpu_info.get("maxphysaddr")
    bits = addresses.get("bits") if isinstance(addresses, Mapping) else None
    return bits if isinstance(bits, int) else None


def _read(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(name) or properties.get(_OLD_NAMES.get(name, name)) or None


def _kind(
    properties: Mapping[str, str], name: str, known: KnownNames, default: str | None = None
) -> str | None:
    written = _read(properties, name) or default
    if not written:
        return None
    found = known.canonical(written)
    if found is None:
        raise _invalid(name, f"must be one of {', '.join(sorted(known.names))}")
    return found


def _version(properties: Mapping[str, str]) -> Callable[[int], bool] | None:
    written = _read(properties, "img_hv_requested_version")
    if not written:
        return None
    try:
        predicate = VersionPredicate(written)
    except ValueError:
        message = "must be comparisons with versions, like >=8.0,<10"
        raise _invalid("img_hv_requested_version", message) from None
    # Most hosts have the same version, and to compare one takes longer than all else.
    return cache(lambda version: predicate.satisfied_by(convert_version_to_str(version)))


def _address_bits(properties: Mapping[str, str]) -> int | None:
    written = _read(properties, "hw_maxphysaddr_bits")
    if not written:
        return None
    if not (written.isascii() and written.isdigit() and len(written) <= 4):
        raise _invalid("hw_maxphysaddr_bits", "must be a whole number of bits, like 48")
    return int(written)


def _invalid(name: str, message: str) -> Exception:
    return invalid(f".image.properties{step(name)}", message)
