"""The package: its version, and the import of every module."""

import importlib
import pkgutil
from importlib.metadata import version

import rtagent


def test_version_is_that_of_the_distribution():
    assert rtagent.__version__ == version("rtagent")


def test_every_module_imports():
    names = [module.name for module in pkgutil.walk_packages(rtagent.__path__, "rtagent.")]
    # Those of rtagent.nova need Nova, and tests/nova imports them.
    others = ("rtagent.migrations.", "rtagent.nova.")
    product = [name for name in names if not name.startswith(others)]

    for name in product:
        importlib.import_module(name)
