"""[placement]: allocations, and keystoneauth1's own options for the connection to Placement.

keystoneauth1 brings an HTTP client, so it is imported only where its options are needed.
"""

from collections.abc import Sequence

from oslo_config import cfg

from rtagent.conf.options import Group, Items, StandardTrait, mutable
from rtagent.model.policy import ManageAllocations

GROUP = "placement"

#: The authentication types whose options are documented. Every plugin of keystoneauth1 works.
DOCUMENTED_AUTH_TYPES = ("password", "http_basic", "admin_token", "none")

#: Defaults where keystoneauth1 has none. Without a timeout it would wait for ever. The timeout is
#: in seconds, for the connection and for each part of an answer.
DEFAULTS = {"service_type": "placement", "valid_interfaces": ["internal", "public"], "timeout": 30}


class PlacementOptions(Group, frozen=True, kw_only=True):
    """The agent's own options of [placement].

    :ivar manage_allocations:
        Whether the agent writes the allocations of its claims to Placement.

        While Placement is down, claims go on with ``yes``; their allocations are written later, in
        order. With ``strict``, a call that creates a claim fails then, and the claim is aborted.
        This is for a cloud whose scheduler trusts Placement alone.
    :ivar withheld_traits:
        Traits of this host that are not published, though they hold for Nova's libvirt driver on
        it: ``COMPUTE_TRUSTED_CERTS``, for example, if those who act on claims do not verify images.
    :ivar allocation_timeout:
        The time in which the allocation of a new claim must be written, in seconds, with
        ``manage_allocations = strict``. After that the claim is aborted, and the call fails.
    :ivar allocation_audit_interval:
        The interval at which the allocations of this host in Placement are compared with its
        claims, in seconds. It is shortened at random by up to a half each time, so that the agents
        of many hosts do not send their requests at the same moment. They are also compared at the
        start. 0: only at the start.
    """

    manage_allocations: str = mutable(
        default=ManageAllocations.NO.value,
        choices=[
            (ManageAllocations.NO.value, "The scheduler or the conductor writes allocations."),
            (
                ManageAllocations.YES.value,
                "The agent writes the allocations of its claims after it has answered.",
            ),
            (
                ManageAllocations.STRICT.value,
                "The agent answers a call that creates a claim after it has written the"
                " allocation.",
            ),
        ],
    )
    withheld_traits: Sequence[str] = mutable(
        default=[], type=Items(StandardTrait("COMPUTE_", "HW_ARCH_", "HW_CPU_"))
    )
    allocation_timeout: int = mutable(default=10, min=1, max=300)
    allocation_audit_interval: int = mutable(default=3600, min=0)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the session, adapter and authentication options of keystoneauth1.

    Those of the authentication plugin are registered when it is loaded. Without ``auth_type``
    nothing is published to Placement.
    """
    from keystoneauth1 import loading

    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    for name, value in DEFAULTS.items():
        conf.set_default(name, value, GROUP)


def documented() -> list[cfg.Opt]:
    """Return every option of keystoneauth1 once, for the sample configuration."""
    from keystoneauth1 import loading

    options = [
        *loading.get_auth_common_conf_options(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
    ]
    for auth_type in DOCUMENTED_AUTH_TYPES:
        options += loading.get_auth_plugin_conf_options(auth_type)
    cfg.set_defaults(options, **DEFAULTS)
    return list({option.dest: option for option in options}.values())


def chosen(conf: cfg.ConfigOpts) -> tuple[str, list[cfg.Opt]]:
    """Return the options of the authentication type that a parsed configuration selects.

    :returns: the group that contains them, which ``auth_section`` may name, and the options. Errors
        in these options are reported elsewhere: the result has no options then.
    """
    from keystoneauth1 import exceptions, loading

    register(conf)
    try:
        # Registered again, because auth_section can be read only now, and auth_type is in the group
        # that it names.
        loading.register_auth_conf_options(conf, GROUP)
        section = conf[GROUP].auth_section or GROUP
        plugin = conf[section].auth_type
        options = loading.get_auth_plugin_conf_options(plugin) if plugin else []
    except (cfg.Error, exceptions.NoMatchingPlugin):
        return GROUP, []
    return section, [*loading.get_auth_common_conf_options(), *options]
