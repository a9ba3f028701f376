"""The measure of the code counts what it says it counts."""

from benchmarks.house import lines_of, repetitions

BODY = """
def {name}(values):
    total = 0

    for value in values:  # each
        if value > {limit}:
            total += value
    text = {{"a": total}}
    return total, {name}
"""


def test_lines_of_code_are_those_without_blanks_comments_and_docstrings():
    source = '"""A module,\nin two lines."""\n\nimport os  # needed\n\n# alone\n\ntext = """one\ntwo"""\n' + BODY
    numbers = [line.number for line in lines_of(source.format(name="count", limit=3))]
    assert numbers == [4, 8, 9, 11, 12, 14, 15, 16, 17, 18]


def test_places_of_one_shape_are_found_and_tables_are_not():
    files = {name: lines_of(BODY.format(name=name, limit=limit)) for name, limit in (("one", 1), ("two", 2))}
    (pair,) = repetitions(files)
    assert [(place.file, place.first, place.last) for place in pair] == [("one", 2, 9), ("two", 2, 9)]
    table = "table = {\n" + "".join(f"    {row}: 'x',\n" for row in range(9)) + "}\n"
    assert repetitions({"one": lines_of(table), "two": lines_of(table.replace("x", "y"))}) == []


def test_imports_are_no_repetition():
    source = "".join(f"from package import name{row}\n" for row in range(9))
    assert repetitions({"one": lines_of(source), "two": lines_of(source)}) == []
