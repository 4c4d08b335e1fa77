"""[placement]: keystoneauth1's own options for reaching Placement."""

from __future__ import annotations

from keystoneauth1 import exceptions, loading
from oslo_config import cfg

GROUP = "placement"

#: The ways to authenticate whose options are documented; any plugin of keystoneauth1 works.
DOCUMENTED_AUTH_TYPES = ("password", "http_basic", "admin_token", "none")

#: Ours where keystoneauth1 has none. Without a timeout it would wait for ever; it counts for the
#: connection and for each piece of an answer, in seconds.
DEFAULTS = {"service_type": "placement", "valid_interfaces": ["internal", "public"], "timeout": 30}


def register(conf: cfg.ConfigOpts) -> None:
    """Session, adapter and auth options; the plugin's own are registered when it is loaded.

    Without ``auth_type`` nothing is published to Placement.
    """
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP)
    for name, value in DEFAULTS.items():
        conf.set_default(name, value, GROUP)


def documented() -> list[cfg.Opt]:
    """Every option once, for the sample configuration."""
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
    """The options of the way to authenticate that a parsed configuration chooses, and the group in
    which they are: another one, if ``auth_section`` names it."""
    try:
        # Once more, now that auth_section can be read: auth_type is looked for there.
        loading.register_auth_conf_options(conf, GROUP)
        section = conf[GROUP].auth_section or GROUP
        plugin = conf[section].auth_type
        options = loading.get_auth_plugin_conf_options(plugin) if plugin else []
    except (cfg.Error, exceptions.NoMatchingPlugin):  # for others to tell
        return GROUP, []
    return section, [*loading.get_auth_common_conf_options(), *options]
