"""The documentation as a site: `make docs` builds it with Sphinx, and every warning is an error."""

from importlib.metadata import version as installed

project = "fencepost"
release = version = installed("fencepost")
copyright = "fencepost, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["figures/**/*.json"]
suppress_warnings = ["myst.strikethrough"]

# A link such as bands.md#what-is-reported needs the headings to have names.
myst_heading_anchors = 3

# Blocks that name no language are drawings and answers, not Python. A docstring's examples are Python all the same.
highlight_language = "none"

# Docstrings write `name` for code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
add_module_names = False

html_theme = "furo"
html_title = "fencepost"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
