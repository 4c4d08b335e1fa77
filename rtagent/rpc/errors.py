"""Errors of calls that have nothing to do with claims."""

from rtagent.errors import RequestError, RtAgentError


class NotAuthorized(RequestError):
    """The caller lacks the role that the method needs.

    :ivar kwargs: ``method``; ``role``, the missing one; ``caller``, its name; ``roles``, what it
        has.
    """

    template = (
        "{method} needs the role {role}, which the caller '{caller}' does not have: it has"
        " '{roles}'. An operator adds roles to its key in [rpc] keys_file; a caller without a key"
        " names them in its request context"
    )


class SignatureInvalid(RequestError):
    """The signature of a call is missing or wrong.

    :ivar kwargs: ``method``; ``key``, the name that was claimed, or ""; ``reason``, a sentence;
        ``skew``, the seconds by which the caller's clock is ahead, or None.
    """

    template = "the signature of {method} is refused: {reason}"


class ReplyNotVerified(RtAgentError):
    """A reply was not proved. The call may have had its effect; raised by a client.

    :ivar kwargs: ``where``, ``method``, ``reason``.
    """

    expected = True
    template = (
        "the reply of {where} to {method} is not verified: {reason}; the call may have had its"
        " effect: repeat it with the same operation id"
    )


class DocumentTooLarge(RequestError):
    """:ivar kwargs: ``path``; ``size`` and ``limit`` in characters."""

    template = (
        "the document at {path} has {size} characters, and a reply at most {limit}: use a filter,"
        " read its items one by one, or read it on the host itself"
    )
