"""Records of what this agent has set in Placement."""

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.placement.provider import NAME, Ownership, obsolete_providers
from tests.unit.placement.values import contents, provider, record, tree

OWN = contents({"VCPU"}, {"CUSTOM_A", "CUSTOM_B"})


def test_an_unchanged_record_is_not_written(tmp_path):
    ownership = Ownership(tmp_path)
    ownership.remember(provider(uuid="u1"), OWN)
    (tmp_path / NAME).unlink()
    ownership.remember(provider(uuid="u1"), OWN)
    assert not (tmp_path / NAME).exists()


def test_an_unreadable_file_is_named_and_kept(tmp_path):
    (tmp_path / NAME).write_text("{broken")
    with pytest.raises(PlacementError, match=f"{tmp_path}/{NAME} cannot be read"):
        Ownership(tmp_path).of("u1")
    assert (tmp_path / NAME).read_text() == "{broken"


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    ownership = Ownership(tmp_path / "missing")
    with pytest.raises(PlacementError, match=r"placement\.json cannot be written: No such file"):
        ownership.remember(provider(uuid="u1"), OWN)
    assert ownership.of("u1") == contents()


def test_created_children_are_known_after_a_restart(tmp_path):
    child = provider({"VGPU": record(1)}, {"CUSTOM_A"}, uuid="u2", name="gpu", parent="u1")
    Ownership(tmp_path).remember(provider(uuid="u1"), OWN)
    Ownership(tmp_path).remember(child, OWN)
    Ownership(tmp_path).remember(provider(uuid="u3", parent="other"), OWN)
    bare = provider(uuid="u2", name="gpu", parent="u1")
    assert Ownership(tmp_path).children("u1") == (bare,)
    assert obsolete_providers(Ownership(tmp_path), tree(provider(uuid="u1"), child)) == ()
    obsolete = obsolete_providers(Ownership(tmp_path), tree(provider(uuid="u1")))
    assert obsolete == (replace(bare, obsolete=True),)


def test_a_forgotten_provider_is_no_longer_owned(tmp_path):
    ownership = Ownership(tmp_path)
    ownership.remember(provider(uuid="u2", parent="u1"), OWN)
    ownership.forget("u2")
    ownership.forget("u2")
    assert Ownership(tmp_path).children("u1") == ()
    assert Ownership(tmp_path).of("u2") == contents()
