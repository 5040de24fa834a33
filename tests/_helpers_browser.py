"""For tests in a browser: Debian's Chromium, headless, driven by Playwright; drawn by its software renderer.

The fixture `browser` is in conftest.py.
"""

from __future__ import annotations

import io
import shutil

import numpy as np

CHROMIUM = next((x for x in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if x), None)
FLAGS = ["--headless=new", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]


class Page:
    """A page that is being watched: `said` what the console got, `asked` which addresses it wanted.

    The machine moves in the page itself or, in a report, in the frame within it.
    """

    def __init__(self, browser, address: str, *, framed: bool = False):
        self.page = browser.new_page(viewport={"width": 1000, "height": 640})
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.frame = self.page.frames[1] if framed else self.page.main_frame
        if framed:  # out of sight nothing is drawn
            self.page.locator("iframe").scroll_into_view_if_needed()
        self.until("window.dalembert !== undefined")
        self.settle()

    def until(self, condition: str) -> None:
        """Wait for a condition; asked from outside, as the page itself lets no text become code."""
        for _ in range(400):
            if self.frame.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came true: {condition}")

    def settle(self) -> None:
        """Two pictures later, what was asked for is drawn."""
        self.frame.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self) -> np.ndarray:
        from PIL import Image

        clip = self.frame.locator("#view").bounding_box()
        with Image.open(io.BytesIO(self.page.screenshot(clip=clip))) as image:
            return np.asarray(image.convert("RGB")).astype(int)

    def time(self) -> float:
        return self.frame.evaluate("dalembert.state.time")

    def seek(self, t: float) -> None:
        self.frame.evaluate(f"dalembert.seek({t})")
        self.settle()

    def place(self, joint: str) -> np.ndarray:
        """Where the name of a joint stands, in pixels."""
        box = self.page.locator("#labels span", has_text=joint).first.bounding_box()
        return np.array([box["x"], box["y"]])


def is_drawn(picture: np.ndarray) -> bool:
    """Bodies, joints, floor and writing make many colours; a blank canvas has one."""
    return len(np.unique(picture.reshape(-1, 3), axis=0)) > 200


def moved(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean(np.any(np.abs(a - b) > 40, axis=-1)))
