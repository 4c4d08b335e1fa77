"""The list of the host's persistent memory: how long it is used, and what a failure costs."""

import pytest

from rtagent.model.assignment import PmemNamespace
from rtagent.ports import PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.namespaces import Namespaces

NS0 = PmemNamespace(name="ns0", path="/dev/dax0.0", size_kb=4096, align_kb=2048)


class Source:
    """Persistent memory that counts how often it is listed."""

    def __init__(self):
        self.calls, self.error = 0, None

    def namespaces(self):
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [NS0]


@pytest.fixture
def source():
    return Source()


def session():
    return Session(object(), ())


def test_a_list_is_used_for_the_session(source):
    namespaces, first = Namespaces(source), session()
    for _ in range(3):
        assert namespaces.look(first, None) == ()
    assert (namespaces.listed, namespaces.names) == ((NS0,), {"/dev/dax0.0": "ns0"})
    assert source.calls == 1
    namespaces.look(session(), None)
    assert source.calls == 2


def test_a_failure_is_reported_and_keeps_the_last_list(source):
    namespaces = Namespaces(source)
    namespaces.look(session(), None)
    source.error, second = PmemUnavailable("it hangs"), session()
    for _ in range(3):
        (problem,) = namespaces.look(second, None)
        assert (problem.item, problem.message) == ("persistent memory", "it hangs")
    assert (namespaces.listed, source.calls) == ((NS0,), 2)


def test_namespaces_that_were_never_listed_are_unknown(source):
    source.error = PmemUnavailable("it hangs")
    namespaces = Namespaces(source)
    namespaces.look(session(), None)
    assert (namespaces.listed, namespaces.names) == (None, None)
    namespaces = Namespaces(None)
    namespaces.look(session(), None)
    assert namespaces.listed == ()
