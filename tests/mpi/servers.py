"""Servers on loopback for the tests of remote stores: nginx, Python's own, one with the ways of less usual servers, an S3
server that checks signatures, and a proxy that fails on purpose. Each takes a free port and is ended by close().

Only the standard library; the S3 server is moto, run by the interpreter that PENSTOCK_MOTO_PYTHON names.
"""

import contextlib
import gzip
import http.client
import itertools
import os
import random
import re
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler

MOTO_PYTHON = os.environ.get("PENSTOCK_MOTO_PYTHON", sys.executable)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refusing(test):
    """A port that nobody listens at, and nobody else gets, until the test ends."""
    taken = socket.socket()
    test.addCleanup(taken.close)
    taken.bind(("127.0.0.1", 0))
    return taken.getsockname()[1]


def wait_for(port, process, seconds=60, address="127.0.0.1"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"server ended with {process.returncode}")
        try:
            socket.create_connection((address, port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"no server on port {port} after {seconds} s")


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def nginx_program():
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


class PythonServer:
    """`python3 -m http.server`: no ranges, a connection for each request."""

    def __init__(self, root):
        self.process = subprocess.Popen([sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory",
                                         root, "0"], stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.port = int(re.search(r" port (\d+) ", self.process.stdout.readline())[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self):
        end(self.process)
        self.process.stdout.close()


class OddHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def ways(self):
        return self.server.ways

    def say(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        if "head" in self.ways():
            self.say(self.ways()["head"])
        else:
            self.answer(False)

    def issue(self):
        """Credentials, as a cloud's container gets them; each time with the next token, and the last one from then on."""
        with self.server.lock:
            tokens = self.ways()["tokens"]
            token = tokens.pop(0) if len(tokens) > 1 else tokens[0]
        self.say(200, [], (f'{{"AccessKeyId": "AK", "SecretAccessKey": "secret", "Token": "{token}", '
                           '"Expiration": "2099-01-01T00:00:00Z"}').encode())

    def is_expired(self):
        token = self.headers.get("x-amz-security-token")
        return "tokens" in self.ways() and token != self.ways()["tokens"][-1] and re.search(r"/[0-9.]+$", self.path)

    def do_GET(self):
        if self.path == "/credentials":
            self.issue()
        elif self.is_expired():
            time.sleep(0.1)
            self.say(*s3_refusal("ExpiredToken", status=400))
        elif "list-type=2" in self.path:
            self.list()
        elif "refusal" in self.ways():
            self.say(*self.ways()["refusal"])
        else:
            self.answer(True)

    def list(self):
        """A page of a listing, as S3 has them; the token is the last key."""
        with self.server.lock:
            self.server.asked.append((self.command, self.path, None))
        if "listing" in self.ways():
            self.say(*self.ways()["listing"])
            return
        url = urllib.parse.urlsplit(self.path)
        query = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        root = self.server.root + urllib.parse.unquote(url.path)
        keys = sorted(os.path.relpath(os.path.join(folder, name), root)
                      for folder, _, names in os.walk(root) for name in names)
        keys = [key for key in keys if key.startswith(query.get("prefix", "")) and key > query.get("continuation-token", "")]
        page = keys[:int(query["max-keys"])]
        more = len(keys) > len(page)
        body = (f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>" +
                (f"<NextContinuationToken>{page[-1]}</NextContinuationToken>" if more else "") +
                "".join(f"<Contents><Key>{key}</Key><Size>{os.path.getsize(os.path.join(root, key))}</Size></Contents>"
                        for key in page) + "</ListBucketResult>")
        self.say(200, [], body.encode())

    def answer(self, with_body):
        """A value, or the range of it that is asked for, of its encoded bytes where it is encoded."""
        ways = self.ways()
        number = next(self.server.numbers)
        with self.server.lock:
            self.server.asked.append((self.command, self.path, self.headers.get("Range")))
        path = self.server.root + self.path
        if not os.path.isfile(path):
            self.say(404)
            return
        with open(path, "rb") as file:
            body = file.read()
        time.sleep(ways.get("first_byte_s", 0) if number == 0 else 0)
        if ways.get("encoding") == "gzip":
            body = gzip.compress(body, 1)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        status, total = 200, len(body)
        if asked and ways.get("ranges", True):
            first = int(asked[1]) if asked[1] else max(0, total - int(asked[2]))
            last = min(int(asked[2]), total - 1) if asked[1] and asked[2] else total - 1
            status, body = 206, body[first:last + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        if "encoding" in ways:
            self.send_header("Content-Encoding", ways["encoding"])
        elif "label" in ways and not re.search(r"/(\.z\w+|zarr\.json)$", self.path):
            self.send_header("Content-Encoding", ways["label"])
        self.send_header("ETag", f'"{number}"' if ways.get("etags") else '"same"')
        length = ways.get("length", "said")
        if length == "said":
            self.send_header("Content-Length", str(len(body)))
        elif length == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body and length == "chunked":
            half = len(body) // 2
            for part in filter(None, (body[:half], body[half:])):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        elif with_body:
            self.wfile.write(body)


class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server in this process, with a thread for each connection."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def handle_error(self, request, client_address):
        pass

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


class Odd(Threads):
    """Serves a folder in its own ways: head=405 (requests for sizes are refused), length="chunked" or "close" (sizes are not
    said), ranges=False, encoding="gzip" (everything is stored so; of ranges, as S3 does, the encoded bytes are
    counted), label="gzip" (chunks are said to be so, and sent as they are), first_byte_s (of the first answer), etags=True (each answer has another), refusal=(status, headers, body) (of everything), listing=(status, headers, body) (of listings:
    else its folders are buckets that can be listed), tokens=[...] (of credentials at /credentials; chunks want the last). `asked`: (method, path, range) of each request."""

    def __init__(self, root, **ways):
        super().__init__(OddHandler)
        self.root, self.ways, self.asked, self.numbers = root, ways, [], itertools.count()
        self.thread.start()


ECHO_MODULE = "/usr/lib/nginx/modules/ngx_http_echo_module.so"


class Nginx:
    """Serves a folder over plain HTTP, or over HTTPS with a certificate of its own (`ca_file`). With latency_s each
    answer is held back (needs ECHO_MODULE, a part of Debian's nginx-light)."""

    def __init__(self, root, tls=False, latency_s=0.0, address="127.0.0.1"):
        self.folder = tempfile.mkdtemp(prefix="penstock-nginx-")
        listener = socket.create_server((address, 0), backlog=511)
        self.port = listener.getsockname()[1]
        self.ca_file = os.path.join(self.folder, "cert.pem")
        os.chmod(self.folder, 0o755)
        listen, certificate = f"{address}:{self.port}", ""
        if tls:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{address}",
                            "-keyout", os.path.join(self.folder, "key.pem"), "-out", self.ca_file],
                           check=True, capture_output=True)
            listen += " ssl"
            certificate = (f"ssl_certificate {self.ca_file};"
                           f"ssl_certificate_key {self.folder}/key.pem;")
        user = "user root;" if os.getuid() == 0 else ""
        module, serve = "", f"location / {{ root {root}; }}"
        if latency_s:
            module = f"load_module {ECHO_MODULE};"
            serve = (f"location / {{ echo_sleep {latency_s}; echo_exec /files$uri; }}"
                     f"location /files/ {{ internal; alias {root}/; }}")
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="ascii") as file:
            file.write(f"""{module} {user} daemon off; pid {self.folder}/pid; worker_processes 1;
error_log {self.folder}/error.log;
events {{ worker_connections 2048; }}
http {{
  access_log {self.folder}/access.log;
  client_body_temp_path {self.folder}/t1; proxy_temp_path {self.folder}/t2;
  fastcgi_temp_path {self.folder}/t3; uwsgi_temp_path {self.folder}/t4;
  scgi_temp_path {self.folder}/t5;
  keepalive_requests 100000; sendfile on; sendfile_max_chunk 1m;
  server {{
    listen {listen}; {certificate}
    {serve}
    location /moved/ {{ return 302 http://127.0.0.1:1/$uri; }}
    location /denied/ {{ return 403 "not you\\n"; }}
  }}
}}
""")
        self.process = subprocess.Popen([nginx_program(), "-c",
                                         os.path.join(self.folder, "nginx.conf")],
                                        env={**os.environ, "NGINX": f"{listener.fileno()};"},  # its socket, already bound
                                        pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL, start_new_session=True)
        listener.close()
        wait_for(self.port, self.process, address=address)
        self.url = f"http{'s' if tls else ''}://{address}:{self.port}"

    def requests(self):
        """Its log, up to the last request that was answered before: its one worker answers one more when it has written that."""
        context = ssl._create_unverified_context()
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(self.url + "/the-end-of-the-log", timeout=60, context=context).close()
        with open(os.path.join(self.folder, "access.log"), encoding="utf-8") as file:
            return "".join(line for line in file if "/the-end-of-the-log" not in line)

    def cpu_s(self):
        """Seconds of CPU time that it has taken."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            processes = [self.process.pid, *file.read().split()]
        ticks = 0
        for process in processes:
            with open(f"/proc/{process}/stat", encoding="ascii") as file:
                ticks += sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self):
        end(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def s3_refusal(code, message="no", more="", status=403, headers=()):
    """What S3 says instead of a value."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>"
    return status, headers, body.encode()


SETUP = """
import boto3, os, sys
url, bucket, root = sys.argv[1:4]
service = dict(endpoint_url=url, region_name="us-east-1")
iam = boto3.client("iam", aws_access_key_id="none", aws_secret_access_key="none", **service)
iam.create_user(UserName="tester")
key = iam.create_access_key(UserName="tester")["AccessKey"]
iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:*","sts:*"],"Resource":"*"}]}')
iam.create_role(RoleName="reader", AssumeRolePolicyDocument=
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sts:AssumeRole"}]}')
iam.put_role_policy(RoleName="reader", PolicyName="all", PolicyDocument=
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}')
s3 = boto3.client("s3", aws_access_key_id="none", aws_secret_access_key="none", **service)
s3.create_bucket(Bucket=bucket)
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            s3.put_object(Bucket=bucket, Key="data sets/" + os.path.relpath(path, root),
                          Body=file.read())
import urllib.request
urllib.request.urlopen(urllib.request.Request(url + "/moto-api/reset-auth", b"0",
    {"Content-Type": "text/plain"}, method="POST"))
print(key["AccessKeyId"], key["SecretAccessKey"])
"""


class S3:
    """An S3 server that checks signatures, with all files below `root` as keys "data sets/..."."""

    BUCKET = "bucket"

    def __init__(self, root):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "1000000", "MOTO_PORT": str(self.port)}
        env.pop("PYTHONHOME", None)
        self.process = subprocess.Popen(
            [MOTO_PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)], env=env,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            wait_for(self.port, self.process)
            made = subprocess.run([MOTO_PYTHON, "-c", SETUP, self.url, self.BUCKET, root], text=True,
                                  capture_output=True, timeout=300, check=False)
            if made.returncode != 0:
                raise AssertionError(made.stderr)
        except BaseException:
            self.close()
            raise
        self.access_key, self.secret = made.stdout.split()

    def environment(self, **more):
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret, **more}

    def close(self):
        end(self.process)


def has_moto():
    return subprocess.run([MOTO_PYTHON, "-c", "import moto.server, flask, boto3"],
                          capture_output=True, check=False).returncode == 0


class Faults:
    """What the proxy does to which share of requests. Metadata documents are left alone where `chunks_only`."""

    def __init__(self, seed=1, chunks_only=False, latency_s=0.0, **shares):
        self.random = random.Random(seed)
        self.shares, self.chunks_only, self.latency_s = shares, chunks_only, latency_s
        self.lock = threading.Lock()
        self.counts = {kind: 0 for kind in shares}

    def choose(self, path):
        if self.chunks_only and path.split("?")[0].endswith((".zarray", ".zgroup", ".zattrs",
                                                             ".zmetadata", "zarr.json")):
            return None
        with self.lock:
            draw = self.random.random()
            for kind, share in self.shares.items():
                if draw < share:
                    self.counts[kind] += 1
                    return kind
                draw -= share
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.behind = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port)

    def finish(self):
        self.behind.close()
        super().finish()

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def upstream(self):
        self.behind.request(self.command, self.path, headers=dict(self.headers))
        response = self.behind.getresponse()
        return response, response.read()

    def fail(self, status, headers):
        body = b"<Error><Code>SlowDown</Code><Message>fewer, please</Message></Error>"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reset(self):
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.server.shutdown_request(self.connection)

    def answer(self):
        with self.server.count_one():
            self.do_answer()

    def do_answer(self):
        faults = self.server.faults
        fault = faults.choose(self.path)
        time.sleep(faults.latency_s)
        if fault == "busy":
            self.fail(503, {})
        elif fault == "later":
            self.fail(429, {"Retry-After": "1"})
        elif fault == "broken":
            self.fail(500, {})
        elif fault == "reset":
            self.reset()
        else:
            response, body = self.upstream()
            self.pass_on(response, body, fault)

    def pass_on(self, response, body, fault):
        self.send_response(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in ("connection", "date", "server", "transfer-encoding",
                                    "content-length"):
                self.send_header(name, value)
        length = response.getheader("Content-Length") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        if self.command == "HEAD" or not body:
            return
        half = len(body) // 2
        if fault == "cut":
            self.wfile.write(body[:half])
            self.close_connection = True
        elif fault == "slow":
            self.wfile.write(body[:half])
            self.wfile.flush()
            time.sleep(1.5)
            self.wfile.write(body[half:])
        else:
            self.wfile.write(body)


class Proxy(Threads):
    """Passes requests on to a server on loopback, with faults; `most` is how many there were at once."""

    def __init__(self, upstream_port, faults):
        super().__init__(Handler)
        self.upstream_port, self.faults, self.at_once, self.most = upstream_port, faults, 0, 0
        self.thread.start()

    @contextlib.contextmanager
    def count_one(self):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        try:
            yield
        finally:
            with self.lock:
                self.at_once -= 1
