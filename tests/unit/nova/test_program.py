"""rtagent-nova-compute without Nova, as in the environment of these tests."""

from rtagent.nova import program


def test_program_refuses_to_start_without_nova(capsys):
    assert program.main() == 78
    assert capsys.readouterr().err == (
        "rtagent-nova-compute: Nova is not installed; rtagent-nova-compute supports Nova 34\n"
    )
