"""Errors of a conductor."""

from rtagent.errors import NotFound, RequestError, RtAgentError, Unavailable


class ServerNotFound(NotFound):
    """No server has this uuid."""

    template = "no server {server_uuid} is known: rtagent server list shows the servers"


class OperationNotFound(NotFound):
    """No unfinished operation has this uuid."""

    template = "no unfinished operation {operation_uuid} is known"


class ServerConflict(RequestError):
    """The state of the server does not allow the operation.

    :ivar kwargs: ``server_uuid``; ``kind`` of the operation; ``why``.
    """

    template = "server {server_uuid}: {kind} is not possible: {why}"


class OperationTaken(RtAgentError):
    """Another conductor has taken the operation over. This one must not make another call."""

    template = "operation {operation_uuid} was taken over by another conductor"
    expected = True


class InvalidReply(RtAgentError):
    """A reply does not have its form. :ivar kwargs: ``where``; ``method``; ``why``."""

    template = (
        "{where} answered {method} with a document that cannot be read: {why}: upgrade the older of"
        " the two"
    )


class OperationFailed(RtAgentError):
    """The operation failed, and was undone.

    :ivar kwargs: ``operation_uuid``; ``server_uuid``; ``kind``; ``error``: its cause, as a
        document; ``tried``: the hosts that were tried, each with its ``host`` and ``error``.
    """

    expected = True

    @property
    def message(self) -> str:
        error, tried = self.kwargs["error"], self.kwargs.get("tried", ())
        why = [
            # Some messages begin with the host.
            prefix + each["error"]["message"].removeprefix(prefix)
            for each in tried
            for prefix in [f"{each['host']}: "]
        ]
        if not tried or tried[-1]["error"] != error:
            why.append(error["message"])
        return (
            f"{self.kwargs['kind']} of server {self.kwargs['server_uuid']} failed and was undone:"
            f" {'; '.join(why)}"
        )


class OperationInterrupted(Unavailable):
    """The operation stopped at a step that cannot be undone or skipped. It can be resumed.

    :ivar kwargs: ``operation_uuid``; ``server_uuid``; ``kind``; ``step``; ``error``: a document.
    """

    @property
    def message(self) -> str:
        return (
            f"{self.kwargs['kind']} of server {self.kwargs['server_uuid']} stopped at the step"
            f" {self.kwargs['step']}: {self.kwargs['error']['message']}. Continue it with: rtagent"
            f" server resume {self.kwargs['operation_uuid']}"
        )


class HookFailed(RtAgentError):
    """A hook of the caller failed. :ivar kwargs: ``hook``; ``host``; ``why``."""

    template = "{host}: the hook {hook} failed: {why}"
    expected = True
