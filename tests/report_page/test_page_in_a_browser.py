"""The page as a reader's browser shows it: it asks for nothing, follows light and dark, and fits a telephone."""

import pytest

from tests.browsers import open_browser, open_page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


def test_the_page_asks_for_nothing_and_follows_the_reader(page, browser, tmp_path):
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()
    seen = {}
    for scheme in ("light", "dark"):
        tab = open_page(browser, color_scheme=scheme, viewport={"width": 390, "height": 800})
        asked, said = [], []
        tab.on("request", lambda request, asked=asked: asked.append(request.url))
        tab.on("console", lambda message, said=said: said.append(message.text))
        tab.goto(address)
        assert [url for url in asked if not url.startswith("data:")] == [address]
        assert said == []
        seen[scheme] = tab.evaluate("[...document.querySelectorAll('figure img')].map(image => image.currentSrc)")
        assert all(tab.evaluate("[...document.images].map(image => image.complete && image.naturalWidth > 0)"))
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(30, 33, 41)"}[scheme]
        tab.context.close()
    assert len(seen["light"]) > 8
    assert not set(seen["light"]) & set(seen["dark"])
