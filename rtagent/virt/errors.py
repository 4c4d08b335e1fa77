"""Errors of hypervisors that concern a conductor, and not an agent."""

from rtagent.errors import RtAgentError


class EnactmentFailed(RtAgentError):
    """The hypervisor of ``host`` refused an order for a guest.

    :ivar kwargs: ``host``; ``server_uuid``; ``action``, like "start"; ``why``.
    """

    template = "{host}: cannot {action} the domain of server {server_uuid}: {why}"
    expected = True


class ClaimMismatch(EnactmentFailed):
    """The server's domain is of another claim than the order, or of none. It was not touched."""

    template = EnactmentFailed.template + ": if it is the server's, put its claim into the metadata"
