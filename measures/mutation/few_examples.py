"""A plugin of pytest: property tests try few examples, since each mutant runs them again."""

from __future__ import annotations

import pytest
from hypothesis import settings

EXAMPLES = 15


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """After the profile that the tests load themselves."""
    settings.register_profile("few", settings.get_profile("short"), max_examples=EXAMPLES)
    settings.load_profile("few")
