"""The releases of Nova that are served, and all that differs between them.

Everything else in this package is the same with each of them. This module imports Nova only when it
is asked, because the release is checked before anything of Nova is imported.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from rtagent.errors import RtAgentError

#: The distribution of Nova, and the first numbers of its supported versions.
DISTRIBUTION = "nova"
SUPPORTED = ("34", "33", "31")


class UnsupportedNova(RtAgentError):
    """Nova is absent, or of a release that is not supported."""

    template = "{found}; rtagent-nova-compute supports Nova {supported}"
    expected = True


def installed() -> str | None:
    """Return the version of Nova in this environment; None: there is none."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return None


def check_release(version: str | None) -> None:
    """Check that a version of Nova is supported.

    :raises UnsupportedNova: it is not, or there is none.
    """
    if version is not None and version.partition(".")[0] in SUPPORTED:
        return
    found = "Nova is not installed" if version is None else f"Nova {version} is installed"
    raise UnsupportedNova(found=found, supported=", ".join(SUPPORTED))


def has_native_threads() -> bool:
    """Return whether this process has native threads, and not greenlets.

    They are the default of Nova 34, and a choice in Nova 33. Nova 31 has greenlets alone.
    """
    from nova import utils

    ask = getattr(utils, "concurrency_mode_threading", None)
    return ask is not None and bool(ask())


def forget_device_providers(tracker: Any, allocations: Any) -> None:
    """Let Nova read the providers of devices again that an instance has been given.

    Others may have changed what is reserved there, which concerns devices of one use alone
    (``one_time_use``). Nova 31 has none.

    :param tracker: Nova's. :param allocations: of the instance, as Nova has them.
    """
    forget = getattr(tracker, "_invalidate_pci_in_placement_cached_rps", None)
    if forget is not None:
        forget(allocations)


def encryption_model(flavor: Any, image: Any) -> str | None:
    """Return for which model of encrypted memory a guest needs a context; None: for none.

    Nova 31 only says whether memory is encrypted. It has no providers of contexts.
    """
    from nova.virt import hardware

    return getattr(hardware.get_mem_encryption_constraint(flavor, image), "model", None)
