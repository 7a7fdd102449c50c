"""Screenshots of pages, by a headless Chromium that is driven over a pipe. Only the standard library, and Pillow if it is
there (Debian: python3-pil), which makes the PNG smaller.
"""
import base64
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

try:
    from PIL import Image
except ImportError:
    Image = None


class Browser:
    """A context manager. Pages are shown one after another."""

    def __init__(self, width, height, scale=1):
        self._profile = tempfile.mkdtemp(prefix="penstock-picture-")
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()

        def place():  # Chromium reads commands from 3 and writes answers to 4
            read_end, write_end = os.dup(to_child), os.dup(from_child)
            os.dup2(read_end, 3)
            os.dup2(write_end, 4)
        self._process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self._profile}", f"--window-size={width},{height}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self._waiting, self._number, self._session = b"", 0, None
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _send(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._waiting:
                part = os.read(self._from, 1 << 20)
                if not part:
                    raise RuntimeError("chromium has ended")
                self._waiting += part
            answer, _, self._waiting = self._waiting.partition(b"\0")
            answer = json.loads(answer)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url):
        self._send("Page.navigate", url=url)

    def show(self, html):
        path = pathlib.Path(self._profile) / "page.html"
        path.write_text(html, encoding="utf-8")
        self.open(path.as_uri())
        self.wait_for("document.readyState == 'complete'")

    def ask(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        return self._send("Runtime.evaluate", expression=expression, awaitPromise=True,
                          returnByValue=True)["result"].get("value")

    def wait_for(self, expression, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while not self.ask(expression):
            if time.monotonic() > deadline:
                raise RuntimeError(f"chromium: not within {timeout_s} s: {expression}")
            time.sleep(0.1)

    def save(self, path, colors=64, height=None):
        """Writes what is seen as a PNG of so many colors."""
        clip = {}
        if height:
            width = self.ask("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": True}
        data = base64.b64decode(self._send("Page.captureScreenshot", format="png", **clip)["data"])
        if Image:
            picture = Image.open(io.BytesIO(data)).convert("RGB").quantize(colors, dither=Image.Dither.NONE)
            out = io.BytesIO()
            picture.save(out, "PNG", optimize=True)
            data = out.getvalue()
        pathlib.Path(path).write_bytes(data)
