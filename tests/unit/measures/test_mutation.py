"""Which mutants are tried, and which tests run."""

from __future__ import annotations

import pytest

from measures.mutation import selection

MUTANTS = [f"rtagent.numa.fit.x_f__mutmut_{number}" for number in range(30)] + [
    f"rtagent.claims.x_f__mutmut_{number}" for number in range(10)
]


@pytest.fixture
def tree(tmp_path):
    files = {
        ".importlinter": "[importlinter:contract:pure]\nsource_modules =\n    rtagent.claims\n"
        "    rtagent.errors\n    rtagent.numa\n",
        "rtagent/numa/fit.py": "",
        "rtagent/claims.py": "",
        "tests/support.py": "from rtagent.numa import fit",
        "tests/unit/numa/test_fit.py": "from rtagent.numa.fit import fit",
        "tests/unit/test_claims.py": "from rtagent import claims",
        "tests/unit/db/test_store.py": "import rtagent.numatic",
        "tests/property/test_all.py": "from tests.support import fit",
        "tests/functional/test_agent.py": "from rtagent import claims",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_core_is_that_of_the_import_contract(tree):
    core = selection.core(tree)
    assert core == ["rtagent.claims", "rtagent.numa"]
    assert selection.source_patterns(tree, core) == ["rtagent/claims.py", "rtagent/numa/*.py"]


def test_files_that_import_the_core_are_selected(tree):
    assert selection.test_files(tree, selection.core(tree)) == [
        "tests/unit/numa/test_fit.py",
        "tests/unit/test_claims.py",
        "tests/property/test_all.py",
    ]


def test_a_sample_takes_from_each_package_in_proportion():
    packages = [selection.package_of(name) for name in selection.sample(MUTANTS, 8, seed=1)]
    assert (packages.count("rtagent.numa"), packages.count("rtagent.claims")) == (6, 2)


def test_a_seed_gives_one_sample():
    assert selection.sample(MUTANTS, 8, 1) == selection.sample(reversed(MUTANTS), 8, 1)
    assert selection.sample(MUTANTS, 8, 1) != selection.sample(MUTANTS, 8, 2)


def test_a_sample_holds_at_most_every_mutant_once():
    assert sorted(selection.sample(MUTANTS, 1000, 1)) == sorted(MUTANTS)
