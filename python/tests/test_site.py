# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site of the documentation as a browser shows it, and its links.

FUSE_SITE names a built site; without it, the tests build one. Chromium reads it
from a server of this process, which adds a script to one page. The script uses
the page, and sends its findings back.
"""

import functools
import http.server
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from tests.support import ROOT, tool
from tests.test_pages import BROWSER, browser_problem

#: Longest page to read, in words; references and notebooks may be longer.
LONGEST = 1600
#: Waits until a condition holds, types a word into the search, and follows the
#: link to a page.
_PROBE = """
<script>
const found = {};
const wait = test => new Promise(done => {
  const again = () => test() ? done() : setTimeout(again, 50); again(); });
const show = () => fetch("/found", {method: "POST",
                                    body: JSON.stringify(found)});
addEventListener("load", async () => {
  const image = document.querySelector("article img");
  found.title = document.title;
  found.tabs = [...document.querySelectorAll(".md-tabs__link")].map(
    node => node.textContent.trim());
  found.picture = [image.complete, image.naturalWidth, image.alt];
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  document.querySelector("#__search").click();
  const query = document.querySelector(".md-search__input");
  query.focus(); query.value = "swap-AB";
  query.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
  await wait(() => document.querySelector(".md-search-result__link"));
  found.results = [...document.querySelectorAll(".md-search-result__link")]
    .map(node => node.getAttribute("href"));
  const tab = [...document.querySelectorAll(".md-tabs__link")].find(
    node => node.textContent.trim() == "Explanation");
  const frame = document.createElement("iframe");
  frame.onload = () => {
    found.target = frame.contentDocument.querySelector("h1").textContent;
    found.sections = [...frame.contentDocument.querySelectorAll(
      ".md-nav--primary .md-nav__link")].map(node => node.textContent.trim());
    show(); };
  frame.src = tab.href; document.body.append(frame);
});</script>
"""


class Reader(HTMLParser):
    """Ids of a page, its links, and the files that the browser loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids.update(given[key] for key in ("id", "name") if given.get(key))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        for key in ("src", "data"):
            if tag != "a" and given.get(key):
                self.loaded.append(given[key])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(given["href"])


@functools.cache
def site() -> Path:
    """The built site."""
    if "FUSE_SITE" in os.environ:
        return Path(os.environ["FUSE_SITE"])
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "-d",
            folder.name,
        ],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env={
            **os.environ,
            "FUSE_BIN": str(Path(tool("fuse-opt")).parent),
            "NO_MKDOCS_2_WARNING": "1",
        },
    )
    if done.returncode:
        raise AssertionError(done.stderr + done.stdout)
    return Path(folder.name)


@functools.cache
def pages() -> dict[Path, Reader]:
    return {
        path: Reader(path.read_text(encoding="utf-8"))
        for path in sorted(site().rglob("*.html"))
    }


class Server(http.server.SimpleHTTPRequestHandler):
    """The site, and its first page with the probe, which posts to /found."""

    found: "queue.Queue[str]" = queue.Queue()

    def do_GET(self):
        if self.path != "/probe.html":
            return super().do_GET()
        text = (site() / "index.html").read_text(encoding="utf-8")
        body = text.replace("</body>", _PROBE + "</body>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.found.put(self.rfile.read(size).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        """Keep quiet."""


class Links(unittest.TestCase):
    def dead(self) -> Iterator[str]:
        for page, read in pages().items():
            name = page.relative_to(site())
            for link in read.links + read.loaded:
                parts = urlsplit(link)
                if parts.scheme in ("http", "https", "mailto", "data"):
                    continue
                path, anchor = urldefrag(link)
                target = (
                    (
                        site() / path.lstrip("/")
                        if path.startswith("/")
                        else page.parent / unquote(path)
                    ).resolve()
                    if path
                    else page
                )
                if target.is_dir():
                    target /= "index.html"
                if not target.exists():
                    yield f"{name}: '{link}' does not exist"
                elif (
                    anchor
                    and target in pages()
                    and unquote(anchor) not in pages()[target].ids
                ):
                    yield f"{name}: '{link}' has no such anchor"

    def test_every_link_leads_somewhere(self):
        self.assertGreater(len(pages()), 40)
        # The page for missing files is served at any path.
        self.assertEqual(
            [line for line in self.dead() if not line.startswith("404.html")],
            [],
        )

    def test_nothing_is_loaded_from_a_network(self):
        for page, read in pages().items():
            for source in read.loaded:
                self.assertNotRegex(source, "^(https?:)?//", page.name)

    def test_every_refusal_has_a_section(self):
        text = (ROOT / "include/fuse/Analysis/Refusals.def").read_text()
        ids = set(re.findall(r'"(FUSE-N\d+)"', text))
        self.assertGreater(len(ids), 90)
        read = pages()[site() / "reference/refusals.html"]
        self.assertEqual({i.lower() for i in ids} - read.ids, set())

    def test_references_are_filled(self):
        for name, text in (
            ("python-api", "fuse_modules"),
            ("c-api", "fuse_launch"),
            ("cli", "fuse-opt"),
            ("dialects/fuse", "fuse.gated_mlp"),
            ("passes/transforms", "fuse-form-kernels"),
            ("schedule-attributes", "tile.schedule"),
        ):
            with self.subTest(name):
                page = site() / f"reference/{name}.html"
                self.assertIn(text, page.read_text(encoding="utf-8"))


class Sources(unittest.TestCase):
    def test_pages_to_read_are_short(self):
        for folder in ("tutorials", "how-to", "explanation", "contributing"):
            for page in (ROOT / "docs" / folder).glob("*.md"):
                with self.subTest(page.name):
                    self.assertLess(len(page.read_text().split()), LONGEST)


class Browser(unittest.TestCase):
    def test_navigation_search_and_picture(self):
        problem = browser_problem()
        if problem is not None:
            self.skipTest(problem)
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Server, directory=str(site()))
        )
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with (
            tempfile.TemporaryDirectory(
                ignore_cleanup_errors=True
            ) as directory,
            subprocess.Popen(
                [
                    str(BROWSER),
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    f"--user-data-dir={directory}/profile",
                    "--remote-debugging-port=0",
                    "--window-size=1280,900",
                    f"http://127.0.0.1:{server.server_port}/probe.html",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as child,
        ):
            try:
                found = json.loads(Server.found.get(timeout=120))
            except queue.Empty:
                self.fail("the page did not send its findings in 120 s")
            finally:
                child.terminate()
                child.wait(timeout=30)
        self.assertEqual(found["title"], "fuse")
        self.assertEqual(
            found["tabs"],
            [
                "Home",
                "Tutorials",
                "How-to",
                "Reference",
                "Explanation",
                "Performance",
                "Contributing",
            ],
        )
        complete, width, text = found["picture"]
        self.assertTrue(complete)
        self.assertGreater(width, 100)
        self.assertEqual(text, "Architecture of fuse")
        self.assertLessEqual(found["overflow"], 0)
        self.assertTrue(
            any("glossary.html" in link for link in found["results"]),
            found["results"],
        )
        self.assertIn("Architecture", found["target"])
        self.assertIn("The decode kernel", found["sections"])


if __name__ == "__main__":
    unittest.main()
