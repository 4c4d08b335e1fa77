"""What to do when RabbitMQ refuses a client: its errors name the user, but not the permission."""

import re
from collections.abc import Sequence

#: An error of a permission, as py-amqp prints it: ``Queue.declare: (403) ACCESS_REFUSED - ...``.
_PERMISSION = re.compile(
    r"(?:(?P<method>\w+\.\w+): )?\(403\) ACCESS_REFUSED - (?:\w+ )?access to "
    r"(?P<what>queue|exchange|topic) '(?P<name>[^']*)' in (?:exchange '(?P<exchange>[^']*)' in )?"
    r"vhost '(?P<vhost>[^']*)' refused for user '(?P<user>[^']*)'"
)
#: The permission that a method needs for what it names first.
_NEEDED = {
    "Queue.declare": "configure",
    "Queue.delete": "configure",
    "Exchange.declare": "configure",
    "Exchange.delete": "configure",
    "Basic.publish": "write",
    "Basic.consume": "read",
    "Basic.get": "read",
    "Queue.purge": "read",
}
#: Those that need permission to write to a queue, and to read an exchange.
_BINDS = ("Queue.bind", "Queue.unbind")

#: Other errors of a connection, by a part of their text in lower case, with their remedies.
_REMEDIES: Sequence[tuple[str, str]] = (
    (
        "login was refused",
        "the broker knows no such user, or the password is wrong. With EXTERNAL, the user is the"
        " common name of [oslo_messaging_rabbit] ssl_cert_file: rtagent broker definitions",
    ),
    (
        "not_allowed - access to vhost",
        "give the user permissions in this virtual host: rtagent broker definitions",
    ),
    ("not_allowed - vhost", "correct the virtual host at the end of [DEFAULT] transport_url"),
    ("auth mechanism", "set [oslo_messaging_rabbit] rabbit_login_method to one that is available"),
    ("certificate required", "set [oslo_messaging_rabbit] ssl_cert_file and ssl_key_file"),
    (
        "alert certificate expired",
        "replace [oslo_messaging_rabbit] ssl_cert_file by a certificate that has not expired",
    ),
    (
        "alert bad certificate",
        "the broker does not accept [oslo_messaging_rabbit] ssl_cert_file: is it signed by the"
        " broker's ssl_options.cacertfile, and has it not expired?",
    ),
    (
        "alert unknown ca",
        "[oslo_messaging_rabbit] ssl_cert_file must be signed by the broker's"
        " ssl_options.cacertfile",
    ),
    (
        "certificate verify failed",
        "[oslo_messaging_rabbit] ssl_ca_file must have the authority that signs the broker's"
        " certificate, for the host name in [DEFAULT] transport_url",
    ),
)


def remedy(error: object) -> str:
    """Return what to do about an error of the broker; "": it is not known."""
    text = " ".join(str(error).split())
    if found := _PERMISSION.search(text):
        return _grant(**found.groupdict())
    lower = text.lower()
    return next((what for part, what in _REMEDIES if part in lower), "")


def explained(error: object) -> str:
    """Return the first line of an error of the broker, with what to do about it."""
    text = str(error).partition("\n")[0] or type(error).__name__
    what = remedy(error)
    return f"{text}: {what}" if what and what not in text else text


def _grant(
    method: str | None, what: str, name: str, exchange: str | None, vhost: str, user: str
) -> str:
    if what == "topic":
        permission = "write" if method == "Basic.publish" else "read"
        where = f"the topic permission to {permission} {name!r} at the exchange {exchange!r}"
    else:
        if method in _BINDS:
            permission = "write" if what == "queue" else "read"
        else:
            permission = _NEEDED.get(method or "", "that it needs")
        where = f"the permission {permission!r} for the {what} {name!r}"
    return (
        f"give the user {user!r} {where} in the virtual host {vhost!r}: rtagent broker definitions"
    )
