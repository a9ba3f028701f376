"""Code, messages and documentation use the words of the field: no name or phrase of an older vocabulary comes back."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TEMPLATES = sorted((ROOT / "src").rglob("templates/*"))

# Words that are no part of an identifier any more, and what took their place.
OLD_NAMES = {
    "anew": "again",
    "arm": "method",
    "asked": "requested",
    "believed": "bounded",
    "bombs": "decompression_risk",
    "complaint": "message",
    "costly": "decompression_risk",
    "crew": "workers",
    "dress": "apply_theme",
    "evidence": "input_log_odds",
    "found": "result, matches, paths: what it is",
    "keeper": "checkpoint_store",
    "kept": "cached, saved",
    "learner": "trainer",
    "ledger": "run_store",
    "likeness": "dhash",
    "look": "theme",
    "machine": "device_context",
    "material": "dataset",
    "mend": "fix",
    "outcome": "metric_result",
    "person": "abstain",
    "picture": "image",
    "pictures": "images",
    "place": "position, path",
    "promise": "predicted",
    "promised": "predicted",
    "recipe": "settings",
    "refusal": "input_error",
    "refuse": "check, error",
    "room": "margin, subpackage",
    "said": "read, options",
    "seen": "processed",
    "sentence": "message",
    "sign": "character",
    "subject": "model_results",
    "survey": "inspection",
    "tell": "print",
    "told": "printed",
    "trust": "shrinkage_weight",
    "verb": "command",
    "wholly": "exact",
    "wish": "options",
}
# Classes, functions and modules of before; CHANGELOG.md says what they are now.
OLD_IDENTIFIERS = """
    Affine AskPerson AsymmetricFocalLoss BadImage Beta Crew CrossEntropyLoss ExpectedF Expectation Extracted Found Grid
    HiddenHead Isotonic Keeper Learner Look MARK Machine Outcome Plan Position Recipe Refusal RiskControl Roles Said
    SoftmaxLoss Subject Survey Temperature Texts Unreadable Wish across_processes curve_of import_predictions joined
    why_costly"""
# Identifiers that may hold one: formats of files and of the studio's interface, and words of other libraries.
ALLOWED_NAMES: dict[str, str] = {
    "bias_sign": "the sign of a number",
    "own_trust": "a buffer in files",
    "picture": "a field of the studio's JSON",
    "pictures_words": "a field of the studio's JSON",
    "place": "a field of the studio's JSON",
    "promise": "a field of the studio's JSON",
    "promised": "a field of the studio's JSON",
    "sentence": "a field of the studio's JSON",
    "sort_in_place": "as NumPy and torch say it",
}
# Phrases that a person of the field would stumble over, and what to write instead.
OLD_PHRASES = {
    r"at the (most|least)": "at most, at least",
    r"anew": "again",
    r"mend(s|ed)?": "fix",
    r"c[ao]mes? true": "observed",
    r"promis(e|es|ed)": "predicted, guaranteed",
    r"wholly": "exact match",
    r"(ask|asks|for|to|left to|by|of) a person": "abstain",
    r"(labels?|cells|classes|values|numbers|rows|bytes|column|one) an? (row|label|sample|image|column|batch)": "per",
    r"(?<!# )evidence(?! *[\](.#|])": "input log-odds",
    r"believ(e|es|ed)": "bounded, trusted",
    r"drawn towards": "shrunk towards",
    r"verbs?": "command",
    r"(?<!tests/)laws?": "property, contract",
    r"rooms?": "subpackage",
    r"the house": "the project",
    r"refus(e|es|ed|al|als|ing)": "raise an error, reject",
    r"sentences?": "message",
    r"(?<![</])pictures?": "image, plot",
    r"(told|tells?|telling)": "print, report",
    r"(spelt|spells?)": "written, repr",
    r"strangers?": "unknown classes",
    r"what came": "the received value",
    r"remed(y|ies)": "hint, fix",
    r"stands? again": "is repeated",
    r"for ever": "forever, without end",
    r"nobody": "no one",
    r"whoever": "the caller",
    r"judg(e|es|ed|ing)": "evaluate",
    r"of two minds": "inconsistent",
    r"doubt(s|ful)?": "uncertainty, expected errors",
    r"complaints?": "message",
    r"ledgers?": "run store",
}
# Where a phrase is a key of a format or a name of its own: file and text.
ALLOWED_PHRASES = {
    ("src/manyhot/cli/tables.py", f'"{key}"')
    for key in ("judged rows", "labels a row", "promised risk", "rows for a person")  # of the JSON of `manyhot decide`
}
PHRASES = {phrase: re.compile(rf"(?<![\w-]){phrase}(?![\w-])", re.IGNORECASE) for phrase in OLD_PHRASES}


def names_of(tree):
    """The names that a module defines: functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def words_of(name):
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@cache
def prose_of(path):
    """Line numbers and texts: comments and strings of more than one word of a module, all of any other file."""
    text = path.read_text()
    if path.suffix != ".py":
        return list(enumerate(text.split("\n"), 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    prose = (tokenize.STRING, tokenize.COMMENT)
    lines = [(token.start[0], token.string.split("\n")) for token in tokens if token.type in prose]
    return [(first + number, line) for first, part in lines for number, line in enumerate(part) if " " in line.strip()]


def shown(path):
    return path.relative_to(ROOT).as_posix()


def test_no_identifier_holds_a_word_of_the_old_vocabulary():
    defined = {name: path for path in SOURCES for name in names_of(ast.parse(path.read_text()))}
    assert {name: shown(defined[name]) for name in OLD_IDENTIFIERS.split() if name in defined} == {}
    old = {name: shown(path) for name, path in defined.items() if words_of(name) & OLD_NAMES.keys()}
    assert {name: path for name, path in old.items() if name not in ALLOWED_NAMES} == {}
    assert not ALLOWED_NAMES.keys() - old.keys(), "allowed, but not there any more"


@pytest.mark.parametrize("phrase", OLD_PHRASES)
def test_no_message_or_page_holds_an_old_phrase(phrase):
    matches = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in (*SOURCES, *PAGES, *TEMPLATES)
        for number, line in prose_of(path)
        if PHRASES[phrase].search(line) and (shown(path), line.strip()) not in ALLOWED_PHRASES
    ]
    assert matches == [], f"{len(matches)} places; write instead: {OLD_PHRASES[phrase]}"
