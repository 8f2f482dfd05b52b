"""The report opened from a file, with no network: it reads, sorts, filters, zooms and prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.lab_pages import ARGUMENTS, CHROMIUM
from tests.unit.report import test_report_site

PAGES = ("index", "containers", "containers-trials", "containers-notebook")
Open = Callable[..., Page]
checkout, site = test_report_site.checkout, test_report_site.site  # fixtures of the tests in the gate


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Browser, site: Path) -> Iterator[Open]:
    """Opens pages offline; in the end nothing but files was asked for, nothing failed and no script complained."""
    contexts, asked, wrong = [], [], []

    def open_(name: str, *, width: int = 1280, scheme: str = "light", script: bool = True) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, java_script_enabled=script
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.goto(f"file://{site}/{name}.html")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert wrong == []


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_width_in_light_and_dark(opened: Open, name: str, width: int) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page = opened(name, width=width, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        for picture in page.locator("article img").all():
            assert picture.evaluate("each => each.complete && each.naturalWidth > 0")
            assert picture.evaluate("each => getComputedStyle(each).backgroundColor") == "rgb(255, 255, 255)"
    assert len(colours) == 2


def test_a_click_shows_a_figure_large_and_escape_puts_it_away(opened: Open) -> None:
    page = opened("containers")
    page.locator("a.zoom").first.click()
    picture = page.locator("dialog img")
    picture.wait_for()
    page.wait_for_function("document.querySelector('dialog img').naturalWidth > 0")
    assert picture.get_attribute("src").endswith("files/figures/containers/forest.svg")
    assert picture.get_attribute("alt") == "A picture of nothing."
    assert picture.bounding_box()["width"] > 1000
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    page.locator("a.zoom").first.click()
    page.get_by_role("button", name="Close").click()
    page.locator("dialog").wait_for(state="detached")


def test_keys_make_a_figure_larger_and_the_link_has_the_focus_again(opened: Open) -> None:
    page = opened("containers")
    link = page.locator("a.zoom").first
    link.focus()
    page.keyboard.press("Enter")
    picture = page.locator("dialog img")
    picture.wait_for()
    fits = picture.bounding_box()["width"]
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert picture.bounding_box()["width"] == pytest.approx(2 * fits, rel=0.05)
    page.keyboard.press("0")
    assert picture.bounding_box()["width"] == pytest.approx(fits, rel=0.05)
    page.get_by_role("button", name="Larger").click()
    assert picture.bounding_box()["width"] == pytest.approx(1.5 * fits, rel=0.05)
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert link.evaluate("each => each === document.activeElement")


def test_a_heading_sorts_the_rows_by_number_and_back(opened: Open) -> None:
    page = opened("containers-trials")
    table = page.locator("table.blocks").first

    def column(number: int) -> list[str]:
        return [each.strip() for each in table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()]

    before = column(2)
    assert column(1) == ["0", "1", "2", "3", "4", "5"]
    head = table.locator("thead th").nth(1)
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(2) == sorted(before, key=float)
    head.get_by_role("button").click()
    assert column(2) == sorted(before, key=float, reverse=True)
    table.locator("thead th").first.get_by_role("button").click()
    assert column(2) == before


def test_a_field_leaves_the_rows_with_all_of_its_words(opened: Open) -> None:
    page = opened("containers")
    page.locator("summary", has_text="Every primary contrast").click()
    frame = page.locator("details[open]")
    rows = frame.locator("tbody tr")
    whole = rows.count()
    field = frame.get_by_role("searchbox")
    field.fill("web docker")
    shown = [each for each in rows.all() if each.is_visible()]
    assert 0 < len(shown) < whole
    assert all("web" in each.inner_text() and "docker" in each.inner_text() for each in shown)
    assert frame.locator(".filter span").inner_text() == f"{len(shown)} of {whole} rows"
    field.fill("")
    assert all(each.is_visible() for each in rows.all())


def test_the_answer_leads_to_its_trials_and_a_value_to_what_was_printed(opened: Open) -> None:
    page = opened("index")
    page.locator(".sentences a").first.click()
    page.wait_for_url("**/containers-trials.html#case-*")
    page.locator("table.blocks a").first.click()
    page.wait_for_url("**/files/raw/**")
    assert page.inner_text("body").startswith("Trial ")


def test_without_scripts_the_figure_is_a_link_to_its_file(opened: Open) -> None:
    page = opened("containers", script=False)
    page.locator("a.zoom").first.click()
    page.wait_for_url("**/files/figures/containers/forest.svg")


def test_on_paper_there_is_the_page_and_no_navigation(opened: Open) -> None:
    page = opened("containers-notebook")
    page.emulate_media(media="print")
    assert not page.locator(".sidebar").is_visible()
    assert not any(each.is_visible() for each in page.locator(".filter").all())
    assert page.locator(".wide").first.evaluate("each => getComputedStyle(each).overflowX") == "visible"
    assert page.pdf(format="A4").startswith(b"%PDF")
