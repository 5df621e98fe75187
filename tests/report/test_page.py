"""Pages: whole without anything else, and escaped."""

import base64
import unittest
from html.parser import HTMLParser

from ddp_ppo.report.charts import Chart, Series
from ddp_ppo.report.page import Html, charts_html, details, heading, link, media, page, table, tiles
from tests.support.process import FolderTestCase

VOID = {"meta", "img", "br"}


class Tree(HTMLParser):
    """Fails where tags do not nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> does not close the last open tag"


class PageTest(unittest.TestCase):
    def test_a_page_is_well_formed_and_fetches_nothing(self):
        chart = Chart("a", [Series("b", [1, 2], [1.0, 2.0])])
        parts = [
            heading("<h>", "note"),
            tiles([("<n>", "1")]),
            charts_html([chart]),
            details("more", table((), [("a", "b")])),
        ]
        text = page("<title>", parts)
        tree = Tree(text)
        self.assertEqual(tree.open, [])
        for tag, attributes in tree.tags:
            self.assertNotIn(tag, ("link", "iframe"))
            self.assertEqual({"src", "href"} & attributes.keys(), set(), tag)
        for word in ("http:", "https:", "@import", "url("):
            self.assertNotIn(word, text)
        self.assertIn("<title>&lt;title&gt;</title>", text)

    def test_it_has_two_colour_schemes_and_the_width_of_a_phone(self):
        text = page("a", [])
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertIn('name="viewport" content="width=device-width', text)

    def test_only_a_long_table_scrolls_by_itself(self):
        short, long = (table((), [("a", "b")] * count) for count in (20, 21))
        self.assertEqual([text.count('class="card long"') for text in (short, long)], [0, 1])

    def test_cells_are_escaped_unless_they_are_html(self):
        text = table(("name", "value"), [("<a>", Html("<code>1</code>")), ("b", 2.5)])
        self.assertIn("<td>&lt;a&gt;</td>", text)
        self.assertIn('<td class="number"><code>1</code></td>', text)
        self.assertIn('<td class="number">2.5</td>', text)

    def test_a_table_without_rows_is_none(self):
        self.assertEqual(table(("a",), []), "")


class MediaTest(FolderTestCase):
    def test_a_picture_is_a_part_of_the_page_or_a_link(self):
        path = self.folder / "play" / "a<b.gif"
        path.parent.mkdir()
        path.write_bytes(b"GIF89a")
        self.assertIn(f"data:image/gif;base64,{base64.b64encode(b'GIF89a').decode()}", media(path))
        self.assertIn('src="play/a&lt;b.gif"', media(path, "play/a<b.gif"))
        self.assertIn('<a href="play/a&lt;b.gif">play/a&lt;b.gif</a>, 0.0 MB', link(path, self.folder))

    def test_a_video_plays_in_the_page(self):
        path = self.folder / "a.mp4"
        path.write_bytes(b"0")
        self.assertTrue(media(path).startswith('<video src="data:video/mp4;base64,MA=="'))


if __name__ == "__main__":
    unittest.main()
