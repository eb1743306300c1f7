"""The documentation site: ``bash .ci/docs`` builds it into ``build/site``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from fastgrad import __version__

project, author, project_copyright = "fastgrad", "fastgrad developers", "fastgrad developers"
version = release = __version__

extensions = [
    "myst_parser", "sphinx.ext.autosummary", "sphinx_copybutton", "sphinx_design", "contents", "pictures", "reference",
]  # fmt: skip
exclude_patterns = ["extensions"]
default_role = "py:obj"  # what stands in single backticks in docstrings
autosummary_generate = False  # `reference` writes the pages
maximum_signature_line_length = 90
toc_object_entries = False  # a table at the top of each page has them

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # a type whose name two modules have: it is linked to the first

html_theme = "furo"
html_title = f"fastgrad {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0f5c9c", "color-brand-content": "#0f5c9c"},
    "dark_css_variables": {"color-brand-primary": "#7fb8ec", "color-brand-content": "#7fb8ec"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
