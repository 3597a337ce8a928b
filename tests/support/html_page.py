"""A written page as a reader meets it: its elements, its text, and what every page must hold."""

import html
import re
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "link", "img", "br", "hr", "input"}
# Everything that the templates may write; a tag from data would stand out.
TAGS = set(
    "html head meta link title style body a header h1 h2 h3 p nav ul li main section svg line rect "
    "circle span strong dl dt dd div table thead tbody tr th td img pre code details "
    "summary".split()
)
ADDRESSES = {"src", "href", "srcset", "data", "action", "poster", "background", "xlink:href"}


class Parsed(HTMLParser):
    """The elements in order; an element that is not closed where it must be fails at once."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.tables = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "table" in self.open:
            if {"th", "td"} & {*self.open}:
                self.tables[-1][-1][-1] += data
            else:
                assert not data.strip()

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_text(text):
    """Return the text that a reader sees, on one line."""
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def check_page(text):
    """Sound HTML that asks for nothing, can be heard, and lists its sections."""
    page = Parsed(text)
    assert text.startswith("<!DOCTYPE html>")
    assert {tag for tag, _ in page.elements} <= TAGS
    assert page.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ADDRESSES & {*attributes}:
            address = attributes[name]
            assert address.startswith("data:") or (address[0] == "#" and address[1:] in ids), tag
    assert "url(" not in text and "@import" not in text
    policy = next(meta for meta in page.all("meta") if "http-equiv" in meta)
    assert policy["content"].startswith("default-src 'none'; ")
    assert len(text.encode()) < 2_000_000

    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(image["alt"].strip() for image in page.all("img"))
    for table in page.tables:
        assert {len(row) for row in table} == {len(table[0])}
    scopes = [cell.get("scope") for cell in page.all("th")]
    rows = sum(len(table) - 1 for table in page.tables)
    assert scopes.count("row") == rows
    assert scopes.count("col") == len(scopes) - rows
    for attributes in page.all("svg"):
        assert attributes["aria-hidden"] == "true"

    contents = text.split("<nav", 1)[1].split("</nav>")[0]
    sections = [section["id"] for section in page.all("section")]
    assert re.findall(r'href="#([^"]+)"', contents) == sections
    assert sections[0] == "overview"
