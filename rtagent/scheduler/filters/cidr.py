"""SimpleCIDRAffinityFilter: hosts near an address."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from rtagent.scheduler.filter import Check, Filter, Rejection, invalid
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class SimpleCIDRAffinityFilter(Filter):
    """Refuse a host whose address is outside the network of the hints ``build_near_host_ip`` and
    ``cidr`` (``/24``).
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint ``build_near_host_ip``.

        :raises InvalidRequest: the hints are no network.
        """
        near = request.spec.hint("build_near_host_ip")
        if not near:
            return None
        network = _network(near, request.spec.hint("cidr") or ("/24",))
        outside = Rejection(f"its address is not in {network}")

        def check(host: HostState) -> Rejection | None:
            try:
                return None if ip_address(host.host_ip) in network else outside
            except ValueError:
                return Rejection(f"its address is not known, so it cannot be in {network}")

        return check


def _network(near: tuple[str, ...], cidr: tuple[str, ...]) -> IPv4Network | IPv6Network:
    try:
        (address,), (mask,) = near, cidr
        return ip_network(f"{address}{mask}", strict=False)
    except ValueError:
        message = "must be one address, and the hint cidr a prefix length like /24"
        raise invalid(".scheduler_hints.build_near_host_ip", message) from None
