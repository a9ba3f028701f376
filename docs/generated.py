"""Parts of pages that are generated: the table of all settings, and every command with its options."""

import inspect
from dataclasses import fields
from typing import Any

import typer

from manyhot.cli.app import app
from manyhot.settings import FitSettings, TrainSettings, default_text


def settings_table() -> str:
    """All settings of a training: type, default and meaning."""
    fit = {item.name for item in fields(FitSettings)}
    own = sorted(fields(TrainSettings), key=lambda item: item.name in fit)
    rows = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for item in own:
        kind = str(item.type).replace("|", "or").replace("Literal[", "").replace("]", "").replace("'", "`")
        rows.append(f"| `{item.name}` | {kind} | {default_text(item.name)} | {item.metadata['description']} |")
    return "\n".join(rows)


def commands() -> str:
    """Every command: what it does, examples, arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():
        text, _, examples = inspect.cleandoc(command.help).partition("[b]Examples[/b]")
        parts += [f"### manyhot {name}", text.strip(), "```shell", examples.strip().replace("\n\n", "\n"), "```", ""]
        parts += ["| argument or option | meaning |", "|---|---|"]
        for parameter in command.params:
            if parameter.name != "help":
                typed = ", ".join(
                    (parameter.metavar or parameter.name,)
                    if parameter.param_type_name == "argument"
                    else parameter.opts
                )
                parts.append(f"| `{typed}` | {(parameter.help or '').replace('|', chr(92) + '|')} |")
        parts.append("")
    return "\n".join(parts)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    for mark, generate in (("<!-- settings -->", settings_table), ("<!-- commands -->", commands)):
        if mark in markdown:
            markdown = markdown.replace(mark, generate())
    return markdown
