"""Planted defects: each can be planted in a copy of this tree, which then is what is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.planted.defect import Defect, NotPlanted, Replacement
from tests.chaos.planted.defects import DEFECTS
from tests.chaos.planted.tree import ROOT, environment, plant


@pytest.mark.parametrize("defect", DEFECTS, ids=[each.name for each in DEFECTS])
def test_a_defect_fits_this_tree(defect, tmp_path):
    for replacement in defect.replacements:
        path = tmp_path / replacement.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / replacement.file).read_text())
    for replacement in defect.replacements:
        replacement.apply(tmp_path)
        changed = (tmp_path / replacement.file).read_text()
        assert changed != (ROOT / replacement.file).read_text()
        compile(changed, replacement.file, "exec")


def test_programs_use_the_copy_and_not_this_tree(tmp_path):
    plant(DEFECTS[0], tmp_path)
    code = "import rtagent.db.store as s, tests.chaos as c; print(s.__file__, c.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(each.startswith(str(tmp_path)) for each in found.stdout.split())


def test_a_defect_that_does_not_fit_is_refused(tmp_path):
    (tmp_path / "a.py").write_text("one two two")
    for old in ("two", "three"):
        with pytest.raises(NotPlanted, match=r"a\.py has the text"):
            Replacement("a.py", old, "four").apply(tmp_path)
    assert (tmp_path / "a.py").read_text() == "one two two"


def test_a_defect_names_what_it_violates():
    for each in DEFECTS:
        assert isinstance(each, Defect)
        assert each.promises and each.meaning.endswith(".")
