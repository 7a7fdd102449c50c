"""Credentials of AWS: roles, SSO, programs, and a token of a web identity that is shorter than the run. Servers are on loopback."""

import hashlib
import json
import os
import time
import unittest
import urllib.parse

import servers
from test_clouds import CloudTest


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


if __name__ == "__main__":
    unittest.main()
