"""The hook: puts rtagent's tracker into the place of Nova's."""

from __future__ import annotations

from rtagent.nova import releases


def install() -> None:
    """Let every compute manager that is made from now on have rtagent's tracker.

    Nova's files stay as they are: one name of the module `nova.compute.resource_tracker` is set.

    :raises UnsupportedNova: the installed Nova is of another release.
    """
    releases.check(releases.installed())
    from nova.compute import resource_tracker

    from rtagent.nova.tracker import ResourceTracker

    resource_tracker.ResourceTracker = ResourceTracker
