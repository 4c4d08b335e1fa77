"""The releases of Nova whose tracker this package can replace."""

from __future__ import annotations

from importlib import metadata

from rtagent.errors import RtAgentError

#: The distribution of Nova, and the first numbers of its supported versions.
DISTRIBUTION = "nova"
SUPPORTED = ("34",)


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


def check(version: str | None) -> None:
    """Check that a version of Nova is supported.

    :raises UnsupportedNova: it is not, or there is none.
    """
    if version is not None and version.partition(".")[0] in SUPPORTED:
        return
    found = "Nova is not installed" if version is None else f"Nova {version} is installed"
    raise UnsupportedNova(found=found, supported=", ".join(SUPPORTED))
