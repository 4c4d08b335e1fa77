from types import SimpleNamespace

import oslo_messaging
import pytest
from oslo_config import cfg

from rtagent.cmd.rpc_caller import RpcCaller, agent_caller, scheduler_caller
from rtagent.errors import ConfigError, RtAgentError
from rtagent.rpc.transport import get_transport


def capped(**levels: str) -> cfg.ConfigOpts:
    """A configuration with [upgrade_levels], and a message bus within this process."""
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    get_transport(conf, "fake://").cleanup()  # registers the options
    conf.set_override("transport_url", "fake://")
    for name, version in levels.items():
        conf.set_override(name, version, group="upgrade_levels")
    return conf


def test_a_call_that_the_cap_forbids_names_the_option():
    agent = agent_caller(capped(rtagent="1.8"), "cn1", None, 1)
    with pytest.raises(ConfigError) as raised:
        agent.call("get_restore")
    remedy = "unset the option when every rtagentd is upgraded"
    cap = "[upgrade_levels] rtagent = 1.8"
    assert str(raised.value) == f"{cap}: get_restore needs 1.9: {remedy}"
    agent.close()
    scheduler = scheduler_caller(capped(scheduler="0.9"), 1)
    with pytest.raises(ConfigError, match=r"\[upgrade_levels\] scheduler = 0\.9"):
        scheduler.call("get_aggregates")
    scheduler.close()


@pytest.mark.parametrize("error", ["NoSuchMethod", "UnsupportedVersion"])
def test_a_method_that_an_earlier_release_does_not_have_is_named(error):
    def drain_node(_context):
        raise oslo_messaging.RemoteError(error, "of the server")

    earlier = SimpleNamespace(drain_node=drain_node)
    caller = RpcCaller(capped(), lambda _: earlier, "rtagent.cn1", "rtagentd", 1)
    refusal = "^rtagent.cn1 serves an earlier release, without drain_node: upgrade it$"
    with pytest.raises(RtAgentError, match=refusal):
        caller.call("drain_node")
    caller.close()
