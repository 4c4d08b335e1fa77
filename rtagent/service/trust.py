"""The keys of a daemon: their use, and the check of the options that name them."""

from __future__ import annotations

from rtagent.conf.load import mistake
from rtagent.conf.rpc import GROUP
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.ports import Clock, Reporter
from rtagent.rpc.tables import TABLES
from rtagent.rpc.trust.authentication import Authentication
from rtagent.rpc.trust.keys import read_ring
from rtagent.rpc.trust.private_key import read_private_key


def authentication(
    topic: str, settings: SettingsHolder, clock: Clock, reporter: Reporter
) -> Authentication:
    """Return what authenticates the callers of a daemon. :raises ConfigError:"""
    host = settings.current.default.host
    methods = TABLES[topic].methods.values()
    return Authentication(topic, host, lambda: settings.current.rpc, clock, reporter, methods)


def check_keys(settings: Settings) -> None:
    """Check the options of ``[rpc]`` and the files that they name.

    :raises ConfigError: a file is wrong, or an option needs one that is not set.
    """
    options = settings.rpc
    for name in ("require_signature", "verify_replies"):
        if getattr(options, name) and options.keys_file is None:
            raise mistake(
                GROUP,
                name,
                True,
                "needs keys_file: set it to the file with the keys of all callers",
            )
    ring = read_ring(options.keys_file)
    if options.signing_key is None:
        return
    key = read_private_key(options.signing_key)
    found = ring.get(key.name)
    if found is not None and found[0].public_key != key.public_key:
        rule = (
            f"is not the private key of the entry {key.name} of keys_file: use the right file, or"
            f" rtagent key revoke {key.name} and rtagent key generate {key.name}"
        )
        raise mistake(GROUP, "signing_key", options.signing_key, rule)
