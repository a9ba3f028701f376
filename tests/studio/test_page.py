"""The page of the studio in a real browser: what people see, type, drop and press."""

import csv
import io
import json
import re
from contextlib import contextmanager

import pytest
from PIL import Image
from playwright.sync_api import expect

from manyhot.formatting import format_prob
from manyhot.studio import bind, open_studio
from manyhot.studio.app import build_app
from tests.browsers import open_browser, open_page
from tests.studio.collections import LABELS, write_collection, write_run
from tests.studio.targets import served
from tests.waiting import eventually

pytestmark = pytest.mark.browser

# What is to be touched and has less than 36 pixels in height, or reaches over the edge.
SMALL = """() => [...document.querySelectorAll("main button, main input:not([type=radio]):not([type=file]), nav a")]
    .filter(element => element.offsetParent)
    .map(element => [element.outerHTML.slice(0, 80), element.getBoundingClientRect()])
    .filter(([, box]) => box.width > 1 && (box.height < 36 || box.right > innerWidth + 1))
    .map(([html]) => html)"""
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 360, "height": 780}


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A studio that several tests look at, and none edits."""
    with serving(write_run(tmp_path_factory.mktemp("shown"), 70), read_only=True) as studio:
        yield studio


@pytest.fixture
def edited(tmp_path):
    """A studio whose labels are corrected, and its folder."""
    with serving(write_run(tmp_path)) as studio:
        yield studio, tmp_path


class Served:
    """A studio that a thread of the tests serves.

    Args:
        target: Where it is.
    """

    def __init__(self, target):
        self.target, self.url = target, f"http://{target.host}/"

    def ask(self, path):
        return json.loads(self.target.ask(path).body)


@contextmanager
def serving(path, **options):
    """A run or a table in a studio."""
    studio, _ = open_studio(path, **options)
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, hosts=address.hosts), address) as target:
        yield Served(target)


@contextmanager
def opened(browser, url, *, viewport=WIDE, **options):
    """A page that must neither complain on its console nor ask any other machine, whatever is done with it."""
    complaints, requests = [], []
    page = open_page(browser, viewport=viewport, **options)
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    expect(at(page, "collection-name")).not_to_be_empty()
    yield page
    page.context.close()
    assert complaints == []
    home = re.match(r"https?://[^/]+/", url).group()
    assert [request for request in requests if not request.startswith((home, "blob:" + home, "data:"))] == []
    assert requests


def at(page, name):
    return page.get_by_test_id(name)


def tiles(page):
    return at(page, "tile")


# Shares that the page must write as Python does.
SHARES = [0, 1, 0.5, 0.934, 0.98, 0.9995, 0.000031, 0.99, 0.995, 0.9999999, 0.07, 0.1, 0.0999]


def in_percent(share):
    """A share as the page shows it."""
    return format_prob(share)


def picture(colour="white"):
    written = io.BytesIO()
    Image.new("RGB", (64, 64), colour).save(written, format="PNG")
    return {"name": f"{colour}.png", "mimeType": "image/png", "buffer": written.getvalue()}


def test_a_search_completes_labels_counts_matches_and_shows_pictures(browser, shown):
    with opened(browser, shown.url) as page:
        expect(tiles(page)).not_to_have_count(0)
        page.keyboard.press("/")
        expect(at(page, "search-input")).to_be_focused()
        page.keyboard.type("do")
        expect(at(page, "suggestions").get_by_role("option")).to_have_count(2)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(at(page, "search-input")).to_have_value(re.compile(r"^(hot )?dog"))
        at(page, "search-input").fill("dog & !park")
        expected = shown.ask("/api/expect?q=dog+%26+!park")["expected"]
        expect(at(page, "count")).to_contain_text(expected["words"])
        page.keyboard.press("Escape")
        page.keyboard.press("Enter")
        best = shown.ask("/api/search?q=dog+%26+!park&limit=1")["items"][0]
        expect(tiles(page).first).to_have_attribute("data-row", str(best["row"]))
        expect(tiles(page).first.get_by_test_id("tile-prob")).to_have_text(best["prob_words"])
        image = tiles(page).first.locator("img")
        expect(image).to_have_js_property("complete", True)
        assert image.evaluate("image => image.naturalWidth") > 0


def test_a_query_that_cannot_be_read_is_marked_where_it_is_wrong(browser, shown):
    with opened(browser, shown.url + "#/search") as page:
        at(page, "search-input").fill("dog & ctt")
        expect(at(page, "query-error")).to_contain_text("Did you mean 'cat'?")
        expect(at(page, "query-place").locator("mark")).to_have_text(re.compile("^c"))


def test_more_pictures_come_as_one_goes_down_and_all_of_them_once(browser, shown):
    with opened(browser, shown.url) as page:
        expect(tiles(page)).not_to_have_count(0)

        def all_there():
            page.mouse.wheel(0, 4000)
            return tiles(page).count() == 70

        assert eventually(all_there)
        rows = tiles(page).evaluate_all("tiles => tiles.map(tile => +tile.dataset.row)")
        assert rows == list(range(70))


def test_the_address_keeps_what_was_searched(browser, shown):
    with opened(browser, shown.url) as page:
        at(page, "search-input").fill("cat")
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("q=cat"))
        at(page, "tab-trust").click()
        expect(at(page, "reliability")).to_be_visible()
        page.go_back()
        expect(at(page, "search-input")).to_have_value("cat")
        page.reload()
        expect(at(page, "search-input")).to_have_value("cat")
        expect(tiles(page).first.get_by_test_id("tile-prob")).to_be_visible()


def test_a_picture_opens_with_all_its_bars_and_closes_again(browser, shown):
    with opened(browser, shown.url) as page:
        tiles(page).first.click()
        detail = at(page, "detail")
        expect(detail).to_be_visible()
        expect(at(page, "detail-bars").get_by_role("listitem")).to_have_count(len(LABELS))
        first = at(page, "detail-name").inner_text()
        page.keyboard.press("ArrowRight")
        expect(at(page, "detail-name")).not_to_have_text(first)
        page.keyboard.press("Escape")
        expect(detail).to_be_hidden()


def test_sliders_change_decisions_and_what_is_to_be_expected(browser, shown):
    with opened(browser, shown.url) as page:
        written = page.evaluate("async (all) => all.map((await import('/static/dom.js')).percent)", SHARES)
        assert [text.replace("\u00a0", " ") for text in written] == [format_prob(share) for share in SHARES]
        at(page, "way-threshold").check()
        at(page, "slider-threshold").fill("0.9")
        few = shown.ask("/api/decide?by=threshold&value=0.9")
        expect(at(page, "decide-words")).to_have_text(few["words"])
        expect(at(page, "precision-expected")).to_have_text(in_percent(few["expected"]["precision"]))
        expect(at(page, "recall-observed")).to_have_text(in_percent(few["observed"]["recall"]))
        bare = shown.ask("/api/search?by=threshold&value=0.9")["items"]
        empty = next(item["row"] for item in bare if item["none"])
        tile = page.locator(f"[data-testid=tile][data-row='{empty}']")
        expect(tile).to_contain_text(re.compile("none of these", re.IGNORECASE))
        at(page, "way-size").check()
        at(page, "slider-size").fill("5")
        expect(at(page, "mean-size")).to_have_text(re.compile("^5"))
        expect(tile).not_to_contain_text(re.compile("none of these", re.IGNORECASE))
        at(page, "way-risk").check()
        expect(at(page, "promise")).to_contain_text("at most 10 % of the labels of an image are missed")


def test_the_arrow_keys_move_a_slider(browser, shown):
    with opened(browser, shown.url) as page:
        at(page, "way-threshold").check()
        at(page, "slider-threshold").focus()
        page.keyboard.press("ArrowRight")
        expect(at(page, "value-threshold")).to_have_text("51 %")
        expect(at(page, "decide-words")).to_have_text("Labels of at least 51 % are predicted.")


def test_a_picture_that_is_dropped_is_classified(browser, shown):
    with opened(browser, shown.url) as page:
        expect(tiles(page)).not_to_have_count(0)
        dropped = page.evaluate_handle(
            """async bytes => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], "white.png", {type: "image/png"}));
                return transfer;
            }""",
            list(picture()["buffer"]),
        )
        for event in ("dragenter", "dragover", "drop"):
            page.dispatch_event("body", event, {"dataTransfer": dropped})
        result = at(page, "classify-result")
        expect(result).to_contain_text("white.png")
        expect(result.get_by_test_id("classify-bars").get_by_role("listitem")).not_to_have_count(0)


def test_none_of_these_is_an_answer(browser, shown):
    with opened(browser, shown.url + "#/classify") as page:
        at(page, "way-threshold").check()
        at(page, "slider-threshold").fill("0.99")
        at(page, "file-input").set_input_files([picture("black")])
        expect(at(page, "classify-result").first).to_contain_text(re.compile("none of these", re.IGNORECASE))


def test_trust_shows_the_diagram_and_says_it_in_words(browser, shown):
    with opened(browser, shown.url + "#/trust") as page:
        expect(at(page, "reliability").locator("svg").first).to_be_visible()
        found = shown.ask("/api/reliability")
        expect(at(page, "trust-words")).to_contain_text(found["words"][0])
        expect(at(page, "trust-words")).to_contain_text(f"Average calibration error{found['ace_words']}")
        expect(at(page, "trust-rows")).to_have_text("Evaluated on the 47 images of test.")
        expect(at(page, "label-rows").get_by_role("row")).to_have_count(len(LABELS))


def test_a_review_is_saved_and_there_after_a_reload(browser, edited):
    studio, folder = edited
    first = studio.ask("/api/review?order=errors&limit=1")["items"][0]
    suspect = first["suspects"][0]

    def item():
        return studio.ask(f"/api/items/{first['row']}")

    with opened(browser, studio.url + "#/review") as page:
        at(page, "order-errors").check()
        expect(at(page, "review-name")).to_contain_text(first["name"])
        expect(at(page, "review-labels")).to_contain_text(suspect["question_words"])
        page.keyboard.press("y")
        expect(at(page, "save-state")).to_contain_text(re.compile("saved", re.IGNORECASE))
        page.keyboard.press("Enter")
        expect(at(page, "review-name")).not_to_contain_text(first["name"])
        # Who reloads while something is on its way to the server is asked whether to stay.
        assert eventually(lambda: item()["done"])
        expect(at(page, "save-state")).to_contain_text(re.compile("saved", re.IGNORECASE))
        page.reload()
        expect(at(page, "review-progress")).to_contain_text("1")
        expect(at(page, "review-name")).not_to_contain_text(first["name"])
    assert item()["done"]
    assert next(label["edited"] for label in item()["labels"] if label["name"] == suspect["name"]) == 1
    assert studio.target.ask("/api/review/file").status == 200
    (row,) = csv.DictReader((folder / "reviewed.csv").read_text().splitlines())
    assert (row["path"], row[suspect["name"]]) == (first["name"], "1")


def test_reject_add_and_undo_without_a_mouse(browser, edited):
    studio, _ = edited
    first = studio.ask("/api/review?order=uncertain&limit=1")["items"][0]
    suspect = first["suspects"][0]["name"]

    def said():
        labels = studio.ask(f"/api/items/{first['row']}")["labels"]
        return {label["name"]: label["edited"] for label in labels if label["edited"] is not None}

    with opened(browser, studio.url) as page:
        page.keyboard.press("2")
        expect(at(page, "review-name")).to_contain_text(first["name"])
        page.keyboard.press("n")
        expect(at(page, "save-state")).to_contain_text(re.compile("saved", re.IGNORECASE))
        assert eventually(lambda: said() == {suspect: 0})
        other = next(name for name in LABELS if name != suspect)
        page.keyboard.press("a")
        page.keyboard.type(other)
        expect(at(page, "add-options").get_by_role("option").first).to_contain_text(other)
        page.keyboard.press("Enter")
        expect(at(page, "review-labels").locator(f"[data-name='{other}']")).to_be_visible()
        assert eventually(lambda: said() == {suspect: 0, other: 1})
        expect(at(page, "save-state")).to_contain_text(re.compile("saved", re.IGNORECASE))
        page.keyboard.press("u")
        assert eventually(lambda: said() == {suspect: 0})
        expect(at(page, "save-state")).not_to_be_empty()


def test_keys_are_told_and_every_view_has_one(browser, shown):
    with opened(browser, shown.url) as page:
        for key, view in (("2", "review"), ("3", "classify"), ("4", "trust"), ("1", "search")):
            page.keyboard.press(key)
            expect(at(page, f"view-{view}")).to_be_visible()
        page.keyboard.press("?")
        expect(at(page, "keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(at(page, "keys")).to_be_hidden()


def test_tiles_are_walked_by_arrows_and_opened_by_enter(browser, shown):
    with opened(browser, shown.url) as page:
        expect(tiles(page)).not_to_have_count(0)
        tiles(page).first.focus()
        page.keyboard.press("ArrowRight")
        expect(tiles(page).nth(1)).to_be_focused()
        page.keyboard.press("Enter")
        expect(at(page, "detail")).to_be_visible()
        page.keyboard.press("Escape")
        expect(tiles(page).nth(1)).to_be_focused()


@pytest.mark.parametrize(
    ("view", "last"),
    [
        ("search?q=dog", "tile-prob"),
        ("review", "review-labels"),
        ("classify", "drop-zone"),
        ("trust", "trust-words"),
    ],
)
def test_a_phone_shows_everything_without_moving_sideways(browser, request, view, last):
    studio = request.getfixturevalue("edited")[0] if view == "review" else request.getfixturevalue("shown")
    with opened(browser, f"{studio.url}#/{view}", viewport=PHONE, has_touch=True, color_scheme="dark") as page:
        expect(at(page, f"view-{view.partition('?')[0]}")).to_be_visible()
        expect(at(page, last).first).to_be_visible()
        expect(at(page, last).first).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        small = page.evaluate(SMALL)
        assert small == []


def test_a_read_only_studio_says_so(browser, shown):
    with opened(browser, shown.url + "#/review") as page:
        expect(at(page, "no-review")).to_contain_text("Nothing can be edited here")


def test_a_table_without_a_model_or_true_labels(browser, tmp_path):
    collection = write_collection(tmp_path, targets=False)
    with serving(collection) as studio, opened(browser, studio.url) as page:
        expect(at(page, "way-risk")).to_be_disabled()
        page.keyboard.press("3")
        expect(at(page, "no-model")).to_be_visible()
        page.keyboard.press("4")
        expect(at(page, "no-targets")).to_be_visible()
