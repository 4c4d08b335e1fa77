"""What an image is made of decides whether it is made anew."""

from lab.digest import digest


def test_the_same_is_the_same():
    assert digest(["etc", "setup.cfg"], "a") == digest(["setup.cfg", "etc"], "a")


def test_files_and_text_count():
    whole = digest(["etc", "setup.cfg"], "a")
    assert whole != digest(["etc"], "a")
    assert whole != digest(["etc", "setup.cfg"], "b")
