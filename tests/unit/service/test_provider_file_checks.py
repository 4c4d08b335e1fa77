"""Checks of provider files against the host: at start, reload and later."""

import pytest

from rtagent.errors import ProviderFileError
from rtagent.placement.offers import Offers, resolve
from rtagent.service.host_checks import ProviderFileChecks
from tests.support.hosts import NODE, host
from tests.support.provider_files import CLASS, entry, provider_files


class Host:
    """What the files add at the moment, the checks, and what they report."""

    def __init__(self, world) -> None:
        self.offers = Offers()
        self.errors, self.parts = world.events.errors, world.notes.parts
        self.checks = ProviderFileChecks(world.context, self)

    def offers_from(self, settings) -> Offers:
        return self.offers


@pytest.fixture
def resolved(tmp_path):
    """A function that resolves provider entries on a host."""

    def resolve_on(*identifications: dict[str, str]) -> Offers:
        items = [entry(each, {CLASS: {"total": 1}}) for each in identifications]
        files = provider_files(tmp_path / "files", *items)
        return resolve(files, host())

    return resolve_on


TWICE = ({"uuid": NODE.uuid}, {"name": NODE.hypervisor_hostname})


def test_provider_files_that_contradict_this_host_are_fatal(world, resolved):
    ours = Host(world)
    ours.offers = resolved(*TWICE)

    assert not ours.checks.accept()

    (error,) = ours.errors
    assert "described a second time" in str(error)


def test_provider_files_that_contradict_this_host_are_refused_at_a_reload(world, resolved):
    ours = Host(world)
    ours.offers = resolved(*TWICE)

    with pytest.raises(ExceptionGroup) as caught:
        ours.checks.check(world.settings.current)

    assert [type(error) for error in caught.value.exceptions] == [ProviderFileError]


def test_contradiction_that_appears_later_is_a_warning(world, resolved):
    ours = Host(world)
    assert ours.checks.accept()
    assert ours.parts["provider_files"] == "pass"

    ours.offers = resolved(*TWICE)
    assert ours.checks.accept()

    assert ours.errors == []
    assert ours.parts["provider_files"].startswith("warn: ")


def test_entry_without_a_provider_is_logged_once_until_the_provider_is_there(world, resolved):
    ours = Host(world)
    lines = []
    for identification in ({"name": "no\nhost"}, {"name": "no\nhost"}, TWICE[0], {"name": "other"}):
        ours.offers = resolved(identification)
        assert ours.checks.accept()
        lines.append(len([text for _, text in world.notes.sentences if "has no provider" in text]))

    assert lines == [1, 1, 1, 2]
    (first, *_) = (text for _, text in world.notes.sentences if "has no provider" in text)
    assert first.endswith(
        "a.yaml: $.providers[0]: this host has no provider no\\nhost: ignored until it has"
    )
