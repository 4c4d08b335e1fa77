"""ServerGroupAffinityFilter and ServerGroupAntiAffinityFilter: the policies of server groups."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


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
