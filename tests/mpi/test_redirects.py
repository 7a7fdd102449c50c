"""Redirects: who gets credentials, what is not followed, targets that run out, Hugging Face's hub; and proxies."""

import json
import os
import time
import unittest
import urllib.parse

from test_clouds import CloudTest


class Redirects(CloudTest):
    def moved(self, target, status=302):
        return lambda handler, _: (status, [("Location", target + handler.path)], b"")

    def test_other_hosts_get_no_credentials(self):
        """Relative redirects keep the headers, and others have none of them; the log says where values come from."""
        other = self.cloud()
        other.ways[""] = lambda handler, _: time.sleep(0.1) or handler.give(urllib.parse.unquote(handler.path.split("?")[0]))
        cloud = self.cloud({"^/v3/": lambda handler, _: (307, [("Location", "/again" + handler.path)], b""),
                            "^/again/": lambda handler, _: (302, [("Location", other.url + handler.path[6:] + "?sig=hidden")], b"")})
        env = self.env(LINES="Authorization: Bearer hidden\nX-Amz-Security-Token: hidden\nCookie: hidden")
        self.same(cloud.url + "/v3", env=env, headers="env:LINES")
        self.assertTrue(all("hidden" in headers["X-Amz-Security-Token"] for _, path, headers, _ in cloud.asked))
        self.assertTrue(other.asked)
        for _, _, headers, _ in other.asked:
            self.assertNotIn("hidden", str(headers))
        with_trainers = {"delivery.trainers": 2, "order.epochs": 2, "store.headers": "env:LINES", "store.requests": 1, "readers.cache": "off"}
        outcome = self.reader(1, self.settings(cloud.url + "/v3", **with_trainers), [], [], timeout=180, env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn(f"its values come from '{other.url[7:]}'", outcome.output)
        self.assertNotIn("hidden", outcome.output)

    def test_what_is_not_followed(self):
        cloud = self.cloud()
        for target, message in (("http://127.0.0.2:1", "redirected to 'http://127.0.0.2:1/v3/zarr.json': .* to https alone"),
                                ("https://me:hidden@127.0.0.1:1", "redirected to 'https://...': "),
                                ("ftp://127.0.0.1:1", "https alone"), (cloud.url, "sixth redirect in a row")):
            cloud.ways["^/v3/"] = self.moved(target)
            output = self.fails(message, cloud.url + "/v3")
            self.assertNotIn("hidden", output)
        # What is no redirect of HTTP's is explained by what the scheme knows.
        cloud.ways["^/v3/"] = lambda _, body: (301, [], b"<Error><Code>PermanentRedirect</Code></Error>")
        for uri, message in (("s3://v3", "set store.s3_region"), ("gs://v3", f"not at {cloud.url}: check store.endpoint")):
            self.assertEqual("s3_region" in self.fails(message, uri, endpoint=cloud.url, anonymous="true"), uri[:2] == "s3")

    def test_targets_that_run_out(self):
        """Signed urls that live for a second are asked for anew; those that refuse always are an error."""
        lives, other = {}, self.cloud()

        def resolve(handler, _):
            number = len(lives)
            lives[str(number)] = time.time() + 1
            return 302, [("Location", f"{other.url}/x{handler.path}?key=hidden{number}")], b""

        def serve(handler, _):
            path, _, query = handler.path.partition("?key=hidden")
            if lives.get(query, 0) < time.time():
                return 403, [], b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
            handler.give(urllib.parse.unquote(path[2:]))
            return None
        cloud = self.cloud({"^/shards/": resolve})
        other.ways["^/x/"] = serve
        self.check(cloud.url + "/shards", "shards", readers=(1,), **{
            "readers.cache": "off", "store.retries": 0, "store.index_cache": 0, "store.requests": 2, "store.coalesce_size": 1})
        reads = sum("/base_frames/" in path for _, path, _, _ in other.asked)
        resolved = sum("/base_frames/" in path for _, path, _, _ in cloud.asked)
        self.assertLess(resolved, reads, "each part of a value was asked for from the start")
        other.ways["^/x/"] = lambda _, body: (403, [], b"no")
        output = self.fails("GET 'http://127.0.0.1:.*403 ", cloud.url + "/shards")
        self.assertNotIn("hidden", output)

    def test_the_hub(self):
        """hf:// and what is missing there: an entry, but no repository or revision."""
        other = self.cloud()

        def resolve(handler, _):
            if handler.headers.get("Authorization") != "Bearer hf_hidden":
                return 401, [("X-Error-Code", "RepoNotFound")], b"Invalid username or password."
            path = urllib.parse.unquote(handler.path.removeprefix("/datasets/me/set/resolve/refs%2Fpr%2F1"))
            if not os.path.isfile(self.datasets + path):
                return 404, [("X-Error-Code", "EntryNotFound")], b"Entry not found"
            return 302, [("Location", f"{other.url}{handler.path.removeprefix('/datasets/me/set/resolve/refs%2Fpr%2F1')}")], b""
        hub = self.cloud({"^/datasets/me/set/resolve/refs%2Fpr%2F1/": resolve,
                          "resolve": lambda _, body: (404, [("X-Error-Code", "RevisionNotFound")], b"Invalid rev id")})
        env = self.env(HF_TOKEN="hf_hidden", HF_ENDPOINT=hub.url)
        self.check("hf://datasets/me/set@refs/pr/1/v3", "v3", env=env, readers=(2,))
        for _, _, headers, _ in other.asked:
            self.assertNotIn("hidden", str(headers))
        path = self.synth("holes", self.SAMPLES, format=3, chunk=8, videos=7)
        os.remove(os.path.join(path, "base_frames/c/2/0/0/0/0"))
        self.same("hf://datasets/me/set@refs/pr/1/holes", "holes", env=env)
        self.fails("RevisionNotFound|Invalid rev id", "hf://datasets/me/set@v9/v3", env=env)
        self.fails("401 ", "hf://datasets/me/set@refs/pr/1/v3", env=self.env(HF_TOKEN="hf_other", HF_ENDPOINT=hub.url))
        other.ways["base_frames/c/"] = lambda _, body: (404, [], b"gone")
        self.fails("404", "hf://datasets/me/set@refs/pr/1/v3", env=env)
        hub.ways = {"resolve": lambda _, body: (429, [("RateLimit", '"resolvers";r=0;t=90')], b"")}
        self.fails("pause of 90 s", "hf://datasets/me/set@refs/pr/1/v3", env=env)

    def test_listings_of_the_hub(self):
        """Groups that only a listing finds, in pages of two; a folder that is not there; and marks that are too long."""
        os.remove(os.path.join(self.datasets, "v2", ".zmetadata"))
        marks = []

        def tree(handler, _):
            self.assertEqual(handler.headers.get("Authorization"), "Bearer hf_hidden")
            path, _, query = handler.path.partition("?")
            path = urllib.parse.unquote(path.removeprefix("/api/datasets/me/set/tree/main")).strip("/")
            query = urllib.parse.parse_qs(query, strict_parsing=True)
            there = os.path.join(self.datasets, path)
            if not os.path.isdir(there):
                return 404, [("X-Error-Code", "EntryNotFound")], b"{}"
            found = [os.path.join(above, name) for above, folders, files in os.walk(there) for name in folders + files
                     if query["recursive"] == ["true"] or above == there]
            first = int(query.get("cursor", ["at=0"])[0].removeprefix("at="))
            entries = [{"type": "directory" if os.path.isdir(name) else "file", "oid": "0" * 40, "size": os.path.getsize(name),
                        "path": os.path.relpath(name, self.datasets)} for name in sorted(found)[first : first + 2]]
            more = [] if first + 2 >= len(found) else [
                ("Link", f'<{hub.url}{handler.path.partition("?")[0]}?recursive=false&cursor=at%3D{first + 2}&limit=2>; rel="next"')]
            marks.extend(more)
            return 200, [("Content-Type", "application/json"), *more], json.dumps(entries).encode()
        hub = self.cloud({"^/api/": tree, "^/datasets/me/set/resolve/main/": lambda handler, _: (
            handler.give(path) if os.path.isfile(self.datasets + (path := urllib.parse.unquote(handler.path[29:])))
            else (404, [("X-Error-Code", "EntryNotFound")], b"Entry not found"))})
        env = self.env(HF_TOKEN="hf_hidden", HF_ENDPOINT=hub.url)
        self.same("hf://datasets/me/set/v2", "v2", env=env)
        self.assertTrue(marks)
        self.check_tools("hf://datasets/me/set/v2", "v2", env=env)
        self.fails("no Zarr array or group there", "hf://datasets/me/set/none", env=env)
        for link, message in ((f'<{hub.url}?cursor={"x" * 3000}>; rel="next"', "mark of the listing's next page is too long"),
                              (f'<{hub.url}?cursor={"x" * 5000}>; rel="next"', "mark of the listing's next page is too long")):
            hub.ways["^/api/"] = lambda _, body, link=link: (200, [("Link", link)], b"[]")
            self.fails(message, "hf://datasets/me/set/v2", env=env)
        for body in (b"{}", b"[1]", b'[{"type": "file", "path": "v2/x"}]'):
            hub.ways["^/api/"] = lambda _, body_asked, body=body: (200, [], body)
            self.fails("the answer is not a listing|has an entry without", "hf://datasets/me/set/v2", env=env)

    def test_a_proxy(self):
        """Everything goes through the one that is asked for, and none is used because of the environment."""
        cloud = self.cloud()
        cloud.ways["^http://example.org/"] = lambda handler, _: handler.give(urllib.parse.unquote(handler.path[18:]))
        self.same("http://example.org/v3", proxy=cloud.url)
        self.fails("through store.proxy, which is 'http://127.0.0.1:1'", cloud.url + "/v3", proxy="http://127.0.0.1:1")
        # Nothing listens at port 1: all of it has to go through the proxy, the question for a token, too.
        none = {"no_proxy": "*", "NO_PROXY": "*"}
        cloud.ways["^http://127.0.0.1:1/v3/"] = cloud.wants_token(lambda path: path[18:])
        cloud.ways["^http://127.0.0.1:1/token"] = cloud.issue(3600)
        self.file("home/.config/gcloud/application_default_credentials.json", json.dumps({
            "type": "authorized_user", "client_id": "id", "client_secret": "secret-hidden", "refresh_token": "refresh-hidden",
            "token_uri": "http://127.0.0.1:1/token"}))
        self.same("gs://v3", proxy=cloud.url, endpoint="http://127.0.0.1:1", env=self.env(**none))
        self.same(cloud.url + "/v3", env=self.env(http_proxy="http://127.0.0.1:1", all_proxy="http://127.0.0.1:1"))


if __name__ == "__main__":
    unittest.main()
