"""Who calls, when nothing proves it."""

import pytest
from oslo_context.context import RequestContext

from rtagent.conf.rpc import UNSIGNED
from rtagent.rpc.trust.access import Caller, unsigned_caller


@pytest.mark.parametrize(
    "said, roles",
    [
        (["reader", "visitor"], {"reader"}),
        (["reader", "member"], set(UNSIGNED)),
        (["manager", "member", "reader", "scheduler"], {"scheduler"}),
        (["admin", "manager", "member", "reader"], {"operator"}),
        (["member"], set(UNSIGNED)),
        ([], set(UNSIGNED)),
    ],
    ids=["one of ours", "user of OpenStack", "two of ours", "admin", "none of ours", "none"],
)
def test_unsigned_caller_has_the_roles_that_its_context_says(said: list[str], roles: set[str]):
    caller = unsigned_caller(RequestContext(user_id="u", roles=said, overwrite=False), UNSIGNED)
    assert caller == Caller(name="u", roles=frozenset(roles))


def test_only_a_proved_caller_is_recorded_as_a_key():
    said = RequestContext(user_id="key:conductor", overwrite=False)
    assert unsigned_caller(said, UNSIGNED).actor == "user:key:conductor"
    assert Caller(name="conductor", roles=frozenset(), proved=True).actor == "key:conductor"
