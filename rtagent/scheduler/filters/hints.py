"""Filters by the hints of a request: near an address, with or without certain instances, by the
server group."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from rtagent.scheduler.filter import Check, Filter, Rejection, Request, invalid
from rtagent.scheduler.host_state import HostState


class SameHostFilter(Filter):
    """Refuse a host that has none of the instances of the hint ``same_host``."""

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint."""
        wanted = request.spec.hint("same_host")
        if not wanted:
            return None
        rejection = Rejection("it has none of the instances of the hint same_host")
        return lambda host: rejection if host.instances_here.isdisjoint(wanted) else None


class DifferentHostFilter(Filter):
    """Refuse a host that has one of the instances of the hint ``different_host``, even one that is
    still moving there.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with the hint."""
        avoided = request.spec.hint("different_host")

        def check(host: HostState) -> Rejection | None:
            for uuid in avoided:
                if uuid in host.instances:
                    return Rejection(f"it has the instance {uuid} of the hint different_host")
            return None

        return check if avoided else None


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


class ServerGroupAffinityFilter(Filter):
    """Refuse a host without a member of the request's group, if any host has one."""

    cost = 1
    every_instance = True
    every_host = True

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with a group of the policy ``affinity`` that has hosts."""
        group = request.spec.instance_group
        if group is None or group.policy != "affinity" or not group.hosts:
            return None
        hosts = frozenset(group.hosts)
        rejection = Rejection(f"the server group is on {', '.join(sorted(hosts))}")
        return lambda host: None if host.host in hosts else rejection


class ServerGroupAntiAffinityFilter(Filter):
    """Refuse a host with as many members of the request's group as ``max_server_per_host`` allows.

    The host that the instance itself is on passes. Claims of members that are moving to the host
    count, so that concurrent moves do not end on one host.
    """

    cost = 1
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge requests with a group of the policy ``anti-affinity`` that has members."""
        group = request.spec.instance_group
        if group is None or group.policy != "anti-affinity":
            return None
        own, most = request.instance_uuid, group.rules.max_server_per_host
        members = frozenset(group.members) - {own}
        if len(members) < most:
            return None

        def check(host: HostState) -> Rejection | None:
            instances = host.instances
            if members.isdisjoint(instances) or own in instances:
                return None
            found = sum(uuid in instances for uuid in members)
            if found < most:
                return None
            return Rejection(f"{found} members of the server group are here, of {most} at most")

        return check
