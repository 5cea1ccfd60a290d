"""How mkdocs renders our pages: docstrings as Markdown, formulas as MathML, a page per method."""

import html
import re
from pathlib import Path

from griffe import Extension
from latex2mathml.converter import convert

DOCS = Path(__file__).resolve().parent
METHODS = DOCS / "methods"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)[^)]*\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
MENU = re.compile(
    r'aria-labelledby="__nav_\w+"([^>]*>\s*<label[^>]*>\s*<span[^>]*></span>)([^<]+)(</label>)'
)
EMPTY_HEADER = re.compile(r"<th([^>]*)></th>")
MATH_BLOCK = re.compile(r"^( *)\.\. math::(.*\n(?:(?:\1 +.*)?\n)*)", re.MULTILINE)
MATH = re.compile(r":math:`([^`]+)`")
ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?([\w*]+)`")


def on_config(config):
    """Put the pages of all methods into the menu, after the table of them."""
    for part in config.nav:
        for pages in part.values():
            if "selectors.md" in pages:
                pages += [f"methods/{page.name}" for page in sorted(METHODS.glob("*.md"))]
    return config


def on_page_markdown(markdown, page, **_):
    """Keep the text of links that leave the site; end the page of a method with its reference."""
    folder = (DOCS / page.file.src_uri).parent
    markdown = LINK.sub(
        lambda link: link[0] if (folder / link[2]).resolve().is_relative_to(DOCS) else link[1],
        markdown,
    )
    if folder == METHODS:
        name = markdown.splitlines()[0].removeprefix("# ")
        markdown += f"\n\n::: fires.rivals.{name}\n    options: {{members: false}}\n"
    return markdown


def on_page_content(content, **_):
    """Turn formulas into MathML, which browsers draw without a script; no header cell is empty."""

    def mathml(found):
        display = "block" if found[1] == "div" else "inline"
        return convert(html.unescape(found[2]).strip(), display=display)

    return EMPTY_HEADER.sub(r"<td\1></td>", FORMULA.sub(mathml, content))


def on_post_page(output, **_):
    """Name each menu by its title: the theme points to a label that is empty."""
    return MENU.sub(lambda one: f'aria-label="{one[2].strip()}"{one[1]}{one[2]}{one[3]}', output)


class RestructuredText(Extension):
    """Our docstrings have the roles and formulas of Sphinx; the pages are Markdown."""

    def on_object(self, *, obj, **_):
        """Rewrite the docstring of one object, before its sections are read."""
        if obj.docstring:
            text = MATH_BLOCK.sub(self._block, obj.docstring.value + "\n")
            obj.docstring.value = ROLE.sub(r"`\1`", MATH.sub(r"$\1$", text)).rstrip()

    @staticmethod
    def _block(found):
        indent, formula = found[1], " ".join(found[2].split())
        return f"{indent}\n{indent}$$\n{indent}{formula}\n{indent}$$\n\n"
