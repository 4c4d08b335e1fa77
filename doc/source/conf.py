"""Sphinx configuration of the documentation; ``tools/docs`` builds it."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

for folder in (Path(__file__).parent / "_ext", Path(__file__).parents[2]):
    sys.path.insert(0, str(folder))

project = "rtagent"
author = "the rtagent developers"
project_copyright = author
version = release = version_of(project)

extensions = [
    "cliff.sphinxext",
    "oslo_config.sphinxext",
    "rtagent_docs",
    "sphinxcontrib.svgbob",
]

# Every reference must resolve.
nitpicky = True
highlight_language = "none"
smartquotes = False

autoprogram_cliff_app_dist_name = "rtagent"
# The output options are the same for every command; the page describes them once.
autoprogram_cliff_ignored = [
    "--help",
    "--format",
    "--column",
    "--quote",
    "--noindent",
    "--max-width",
    "--fit-width",
    "--print-empty",
    "--prefix",
    "--sort-column",
    "--sort-ascending",
    "--sort-descending",
]

html_theme = "furo"
html_title = f"rtagent {version}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["drawings.css"]
html_show_sphinx = False
html_show_copyright = False

man_pages = [
    ("cli/rtagent", "rtagent", "operate the resource agent of a hypervisor", "", 1),
    ("cli/rtagentd", "rtagentd", "the resource agent of a hypervisor", "", 8),
    ("cli/rtagent-scheduler", "rtagent-scheduler", "select hosts for instances", "", 8),
]
