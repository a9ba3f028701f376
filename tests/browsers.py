"""A real browser for the tests of pages: Chromium, whichever this machine has."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.waiting import HANG

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# It must neither ask other machines for anything nor need rights that a container does not have.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_browser() -> str:
    """The program; a test fails, and is not left out, where there is none."""
    named = os.environ.get("MANYHOT_BROWSER")
    found = next((path for name in (*([named] if named else []), *NAMES) if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("The tests of pages need Chromium: run `make browser`, or name one in MANYHOT_BROWSER.")
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser that is closed in the end."""
    expect.set_options(timeout=1000 * HANG)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(OPTIONS), timeout=1000 * HANG)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, **options: object) -> Page:
    """A page in a context of its own, which waits as long as it takes; closing the context closes it."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(1000 * HANG)
    return page
