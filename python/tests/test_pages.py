# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Report pages as a browser shows them.

Chromium runs without a screen and without a network. A script that the test
adds to a page writes its findings into the document, which is then dumped.
"""

import functools
import html
import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from fuse_mlir.fusion.results import SiteResult
from fuse_mlir.matching.sites import Refusal
from fuse_mlir.reports.report import Check, Timing, Verification, sites_html
from fuse_mlir.support.about import About, about

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
ABOUT = About(
    "models/<tiny>",
    "python -m fuse_mlir verify models/<tiny>",
    "2026-01-02 03:04 UTC",
    {"fuse": "0.1.0", "torch": "2.13.0"},
)

#: Looks at a page after its scripts ran, sorts its first table twice by its
#: second column, and writes the findings into the document.
_PROBE = """
<script>addEventListener("load", () => {
  const texts = css => [...document.querySelectorAll(css)].map(
    node => node.textContent);
  const column = () => texts("tbody td:nth-child(2)");
  const head = document.querySelectorAll("th")[1];
  const found = {title: document.title, heading: texts("h1"),
    summary: texts(".summary"), legend: texts(".legend dt"),
    about: texts(".about dd"), before: column(), script: "hack" in window,
    overflow: document.documentElement.scrollWidth - innerWidth};
  head.querySelector("button").click();
  found.sort = head.getAttribute("aria-sort"); found.up = column();
  head.querySelector("button").click(); found.down = column();
  const pre = document.createElement("pre"); pre.id = "found";
  pre.textContent = JSON.stringify(found); document.body.append(pre);
});</script>
"""


@functools.cache
def browser_problem():
    """Why no browser can run here, or None.

    On Ubuntu, the package only installs a snap, which does not run in
    containers.
    """
    if BROWSER is None:
        return "no chromium"
    try:
        done = subprocess.run(
            [
                BROWSER,
                "--headless=new",
                "--no-sandbox",
                "--dump-dom",
                "data:text/html,<p>works",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{BROWSER} does not answer"
    return None if "works" in done.stdout else f"{BROWSER} does not run here"


class Pages(unittest.TestCase):
    def look(self, page, width=1280):
        problem = browser_problem()
        if problem is not None:
            self.skipTest(problem)
        with tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True
        ) as directory:
            path = Path(directory) / "page.html"
            path.write_text(page + _PROBE, encoding="utf-8")
            done = subprocess.run(
                [
                    BROWSER,
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    f"--user-data-dir={directory}/profile",
                    f"--window-size={width},800",
                    "--dump-dom",
                    path.as_uri(),
                ],
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
        found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
        self.assertIsNotNone(found, done.stdout[:2000])
        return json.loads(html.unescape(found.group(1)))

    def test_verification(self):
        page = Verification(
            [
                Check("layers.10.mlp", "V2", True, "relative error 1e-7"),
                Check("layers.2.mlp", "V0", False, "<script>hack=1</script>"),
            ],
            ["gradients and training"],
            ABOUT,
        ).html()
        self.assertNotIn("http", page)
        seen = self.look(page)
        self.assertEqual(seen["title"], "Verification: models/<tiny>")
        self.assertEqual(seen["heading"], ["Verification: models/<tiny>"])
        self.assertEqual(seen["summary"], ["1 of 2 checks passed"])
        self.assertEqual(seen["legend"], ["V0", "V2"])
        self.assertEqual(
            seen["about"],
            [
                "models/<tiny>",
                "python -m fuse_mlir verify models/<tiny>",
                "2026-01-02 03:04 UTC",
                "0.1.0",
                "2.13.0",
            ],
        )
        self.assertFalse(seen["script"])
        self.assertEqual(seen["before"], ["V2", "V0"])
        self.assertEqual(
            (seen["sort"], seen["up"], seen["down"]),
            ("ascending", ["V0", "V2"], ["V2", "V0"]),
        )

    def test_sites_sort_by_number_and_fit_a_phone(self):
        sites = [
            SiteResult(
                f"norm+mlp#{i}",
                f"model.layers.{i}",
                [f"model.layers.{i}.norm", f"model.layers.{i}.mlp"],
                "could fuse",
                ("gated_mlp",),
            )
            for i in (10, 2)
        ]
        sites.append(
            SiteResult(
                "x#0",
                "head",
                ["head.x"],
                "refused",
                refusal=Refusal(
                    "FUSE-N002", "intermediate-has-other-users", "text " * 40
                ),
            )
        )
        for width in (1280, 390):
            seen = self.look(sites_html(sites, "Fusion", ABOUT), width)
            self.assertLessEqual(seen["overflow"], 0, width)
        self.assertEqual(seen["summary"], ["2 could fuse, 1 refused"])
        self.assertEqual(seen["legend"], ["could fuse", "refused", "FUSE-N002"])
        self.assertEqual(
            seen["up"],
            [
                "head.x#0",
                "model.layers.2.norm+mlp#2",
                "model.layers.10.norm+mlp#10",
            ],
        )

    def test_times(self):
        seen = self.look(Timing(1.5, 3.0, ABOUT).html())
        self.assertEqual(
            seen["summary"],
            ["fused 1.500 ms, unfused 3.000 ms, 2.00 times as fast"],
        )
        self.assertEqual(seen["up"], ["1.500", "3.000"])


class Head(unittest.TestCase):
    def test_versions_and_machine(self):
        rows = dict(about("qwen3", "a command").rows())
        self.assertEqual(
            (rows["model"], rows["command"]), ("qwen3", "a command")
        )
        self.assertRegex(rows["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        for name in ("fuse", "torch", "transformers", "processor"):
            self.assertTrue(rows[name])
        self.assertNotIn("command", dict(about("qwen3").rows()))


if __name__ == "__main__":
    unittest.main()
