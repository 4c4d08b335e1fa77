"""IsolatedHostsFilter: reserves hosts for images, and images for hosts."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class IsolatedHostsFilter(Filter):
    """Refuse other hosts to isolated images and, if
    ``restrict_isolated_hosts_to_isolated_images``, isolated hosts to other images.
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge requests unless the options isolate nothing for this image."""
        options = self.options
        hosts = frozenset(options.isolated_hosts)
        if request.spec.image.id in options.isolated_images:
            other = Rejection("the image is isolated, and this is not one of isolated_hosts")
            return lambda host: None if host.host in hosts else other
        if not hosts or not options.restrict_isolated_hosts_to_isolated_images:
            return None

        def check(host: HostState) -> Rejection | None:
            if host.host in hosts:
                return Rejection(
                    "the host is isolated, and the image is not one of isolated_images"
                )
            return None

        return check
