"""The callers of a daemon: keys, and the options that name them; the policy and the bounds."""

from oslo_config import cfg

from rtagent.conf.options import mistake
from rtagent.conf.rpc import GROUP
from rtagent.conf.settings import Settings, SettingsHolder
from rtagent.ports import Clock, Reporter
from rtagent.rpc.methods import PREFIXES, TABLES, list_rules
from rtagent.rpc.trust.access import Access, CallerBounds
from rtagent.rpc.trust.authentication import Authentication
from rtagent.rpc.trust.credentials import read_private_key
from rtagent.rpc.trust.keys import read_ring
from rtagent.rpc.trust.policy import AccessPolicy, PolicyRules, read_rules


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


class CallerAccess:
    """:ivar access: for the daemon's endpoint. :ivar authentication: of its callers."""

    def __init__(
        self,
        topic: str,
        conf: cfg.ConfigOpts,
        settings: SettingsHolder,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param topic: of the daemon's API. :raises ConfigError: a file is wrong."""
        self._policy = AccessPolicy(conf, list_rules(), PREFIXES[topic], clock, reporter)
        self.authentication = Authentication(
            topic,
            settings.current.default.host,
            settings.current.rpc,
            clock,
            reporter,
            TABLES[topic].methods.values(),
        )
        self._settings, self._bounds = settings, CallerBounds(settings.current.rpc, clock)
        self.access = Access(reporter, self.authentication, self._policy.authorize, self._bounds)

    def reload(self) -> None:
        """Put new settings in force, and read policy and keys again. If a file is wrong, what it
        said before stays in force.
        """
        options = self._settings.current.rpc
        self._policy.reload()
        self.authentication.reload(options)
        self._bounds.options = options


def effective_rules(conf: cfg.ConfigOpts) -> PolicyRules:
    """Return the policy of both daemons, which may share its files. :raises ConfigError:"""
    return read_rules(conf, list_rules())
