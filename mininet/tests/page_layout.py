# SPDX-License-Identifier: Apache-2.0
"""Pages in a browser without a window: parts that are clipped or lie on others at a given width."""

import functools
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NARROW, ZOOMED, WIDE = 400, 640, 1280
"""Widths in CSS pixels: a telephone's, half of a usual screen (200 %), a usual screen."""

SCRIPT = """
const scrolls = (element) => {
  for (let p = element.parentElement; p; p = p.parentElement)
    if (["auto", "scroll"].includes(p.ownerDocument.defaultView.getComputedStyle(p).overflowX)) return true;
  return false;
};
const overlap = (a, b) => Math.min(Math.min(a.right, b.right) - Math.max(a.left, b.left),
                                   Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
window.onload = () => {
  const page = document.querySelector("iframe").contentDocument;
  for (const folded of page.querySelectorAll("details")) folded.open = true;
  const root = page.documentElement;
  const name = (e) => `${e.tagName} ${(e.textContent || "").trim().slice(0, 40)}`;
  const wide = [...page.querySelectorAll("body *")].filter(
    (e) => !e.closest("svg") && e.getBoundingClientRect().right > root.clientWidth + 1 && !scrolls(e)).map(name);
  const clipped = [...page.querySelectorAll("td, th")].filter((e) => e.scrollWidth > e.clientWidth + 1).map(name);
  const small = [], overlaid = [];
  for (const drawing of page.querySelectorAll("svg")) {
    const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
    for (const text of drawing.querySelectorAll("text"))
      if (scale * parseFloat(page.defaultView.getComputedStyle(text).fontSize) < LEAST) small.push(name(text));
  }
  for (const drawing of page.querySelectorAll("svg")) {
    const texts = [...drawing.querySelectorAll("text")].filter((e) => e.textContent.trim());
    const boxes = texts.map((e) => e.getBoundingClientRect());
    for (let i = 0; i < boxes.length; i++)
      for (let j = i + 1; j < boxes.length; j++) {
        const [a, b] = [boxes[i], boxes[j]];
        if (overlap(a, b) > 0.35 * Math.min(a.height, b.height, a.width, b.width))
          overlaid.push(`${name(texts[i])} | ${name(texts[j])}`);
      }
  }
  const found = {beyond: root.scrollWidth - root.clientWidth, wide, clipped, small, overlaid};
  document.body.setAttribute("data-found", JSON.stringify(found));
};
"""
LEAST_TEXT_PX = 5
"""Height of a drawing's smallest text; drawings that would have less scroll."""


@functools.cache
def browser() -> str:
    """A browser on PATH; without one the test is skipped."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser: apt install chromium-headless-shell")
    return found


def layout(page: str, width: int) -> dict[str, Any]:
    """`beyond`: pixels by which the page is wider than the window; texts of parts that stick out of it, of table cells
    that don't hold their text, and of drawings' labels
    too small to read, or on another one."""
    script = SCRIPT.replace("LEAST", str(LEAST_TEXT_PX))
    frame = f'<iframe style="border: 0" width="{width}" height="2000" srcdoc="{html.escape(page)}"></iframe>'
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "frame.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}<script>{script}</script>")
        words = ["--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--virtual-time-budget=10000"]
        done = subprocess.run(
            [browser(), *words, "--dump-dom", f"file://{folder}/frame.html"], capture_output=True, text=True, check=True
        )
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    return json.loads(html.unescape(found[1]))


def assert_fits(page: str) -> None:
    """Nothing is clipped at a width of 400 px, at 200 % and on a usual screen."""
    for width in (NARROW, ZOOMED, WIDE):
        found = layout(page, width)
        assert found == {"beyond": 0, "wide": [], "clipped": [], "small": [], "overlaid": []}, f"{width} px: {found}"
