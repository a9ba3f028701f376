"""The page of the evidence: prose from a template, tables, verdicts and pictures from the runs that are kept."""

import re
from collections import Counter
from pathlib import Path

from experiments import default, linear_evaluation
from experiments.claims import Claim, all_claims
from experiments.claims.parts import TIED
from experiments.figures import FIGURES
from experiments.harness.jobs import Ledger
from experiments.harness.studies import Scope
from experiments.registry import STUDIES
from manyhot.files import whole_file
from manyhot.report import save_png

HERE = Path(__file__).parent
TEMPLATE = HERE / "evidence.template.md"
DOCS = HERE.parent / "docs"
FOLDED = 12  # a table of more rows than this is folded away


def write_page(ledger: Ledger, docs: Path = DOCS) -> None:
    """Writes evidence.md and its pictures."""
    for name, draw in FIGURES.items():
        figure = draw(ledger)
        if figure is not None:
            save_png(figure, docs / "images" / f"{name}.png")
    with whole_file(docs / "evidence.md") as part:
        part.write_text(page_of(ledger), encoding="utf-8")


def page_of(ledger: Ledger) -> str:
    """The page as Markdown."""
    content = {
        "verdicts": verdict_table(all_claims(ledger)),
        "claims": "\n".join(claim_text(claim) for claim in all_claims(ledger)),
        "machines": machines(ledger),
        "linear-evaluation": linear_evaluation.page(ledger.folder),
        "default": default_tables(ledger),
        **{study.name: folded(study.page(study, Scope(), ledger)) for study in STUDIES.values()},
    }
    return re.sub(r"{{([a-z-]+)}}", lambda found: content[found[1]].strip(), TEMPLATE.read_text(encoding="utf-8"))


def verdict_table(claims: list[Claim]) -> str:
    """Claims and verdicts, with the first figure of each."""
    lines = ["| paper | claim | verdict | our figure |", "|---|---|---|---|"]
    rows = [(claim.paper, claim.text, f"**{claim.verdict}**", claim.parts[0].shown()) for claim in claims]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def claim_text(claim: Claim) -> str:
    """A claim with what it was held against."""
    words = {"above": "claimed higher", "below": "claimed lower", TIED: "claimed equal"}
    signs = {True: "yes", False: "no", None: "open"}
    lines = [f"- {part.shown()} ({words[part.claimed]}: {signs[part.holds]})" for part in claim.parts]
    head = f"**{claim.paper}. {claim.text}** *{claim.verdict.capitalize()}.* {claim.reason}"
    return "\n".join([head, "", *lines, ""])


def machines(ledger: Ledger) -> str:
    """How many runs there are of each material, on what, and how fast they were."""
    counts: Counter[tuple[str, str]] = Counter()
    speeds: dict[tuple[str, str], list[int]] = {}
    for study in STUDIES.values():
        for job in study.runs(Scope()):
            run = ledger.find(job)
            if run is not None and "diverged" not in run:
                key = job.material.partition(": ")[0], run["device"]
                counts[key] += 1
                speeds.setdefault(key, []).append(run["samples a second"])
    lines = ["| material | machine | runs | samples a second, each of several runs at once |", "|---|---|---:|---:|"]
    for (material, device), count in sorted(counts.items()):
        own = sorted(speeds[material, device])
        lines.append(f"| {material} | {device} | {count} | {own[0]:,} to {own[-1]:,} |")
    return "\n".join(lines)


def default_tables(ledger: Ledger) -> str:
    """The default recipe against the methods of the papers."""
    comparison = default.Comparison(ledger)
    return folded("\n".join(comparison.table(material) for material in default.SETS), least=1)


def folded(text: str, *, least: int = FOLDED) -> str:
    """The text with its long tables folded away under the line that names them."""
    parts = []
    for block in re.split(r"\n(?=[^|\n][^\n]*:\n\n\|)", text.strip()):
        title, _, table = block.partition(":\n\n")
        if table.count("\n") < least or not table.startswith("|"):
            parts.append(block)
        else:
            body = "\n".join(f"    {line}".rstrip() for line in table.strip().split("\n"))
            parts.append(f'??? note "{title}"\n\n{body}\n')
    return "\n\n".join(part.strip("\n") for part in parts)
