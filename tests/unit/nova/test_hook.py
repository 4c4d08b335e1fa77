"""Which releases of Nova are supported; these tests run without Nova."""

import pytest

from rtagent.nova import hook


@pytest.mark.parametrize("version", ["34", "34.0.0", "34.1.2"])
def test_supported_release_is_accepted(version: str):
    hook.check_release(version)


@pytest.mark.parametrize("version", ["33.0.0", "35.0.0", "340.0.0", "3.4"])
def test_another_release_is_refused_with_those_that_are_supported(version: str):
    with pytest.raises(hook.UnsupportedNova) as raised:
        hook.check_release(version)
    assert str(raised.value) == (
        f"Nova {version} is installed; rtagent-nova-compute supports Nova 34"
    )


def test_program_refuses_to_start_without_nova(capsys):
    assert hook.main() == 78
    assert capsys.readouterr().err == (
        "rtagent-nova-compute: Nova is not installed; rtagent-nova-compute supports Nova 34\n"
    )
