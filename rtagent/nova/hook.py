"""The hook: puts rtagent's tracker into the place of Nova's."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.nova import releases


def install(options: cfg.ConfigOpts | None = None) -> None:
    """Let every compute manager that is made from now on have rtagent's tracker.

    Nova's files stay as they are: one name of the module `nova.compute.resource_tracker` is set.

    :param options: rtagent's own, of a program that serves the read API and, with native threads,
        compares the claims with libvirt's domains. None: it does neither.
    :raises UnsupportedNova: the installed Nova is of another release.
    """
    releases.check(releases.installed())
    from nova.compute import resource_tracker

    from rtagent.nova.served_tracker import ServedTracker
    from rtagent.nova.tracker import ResourceTracker

    resource_tracker.ResourceTracker = ResourceTracker
    if options is not None:
        ServedTracker.options = options
        resource_tracker.ResourceTracker = ServedTracker
