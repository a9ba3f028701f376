"""Lays out docstrings for the API pages: formulas as code, the sections of losses as paragraphs of their own."""

import re

from griffe import Extension

SECTION = re.compile(r"(Shape|Link|No-label rows|Reference): (.*)")
FORMULA = re.compile(r"[\w-]+(\([^)]*\))? = ")


class Sections(Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj, **kwargs):
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = lay_out(obj.docstring.value)


def lay_out(text):
    """The docstring in Markdown."""
    # "Examples" is the section whose prompts are shown as code; docstrings with one example say "Example".
    summary, *paragraphs = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE).split("\n\n")
    return "\n\n".join([summary, *(lay_out_paragraph(paragraph) for paragraph in paragraphs)])


def lay_out_paragraph(paragraph):
    """A formula in a fence, the sections of losses separated, anything else unchanged."""
    if FORMULA.match(paragraph):
        return f"```text\n{paragraph}\n```"
    if not SECTION.match(paragraph):
        return paragraph
    one_line_each = re.sub(r"\n +", " ", paragraph)
    return "\n\n".join(SECTION.sub(r"**\1:** \2", line) for line in one_line_each.split("\n"))
