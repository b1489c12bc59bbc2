"""A client of HTTP/2: bodies both ways. Its arguments are the URL of `anywire serve`, and over TLS the file of the certificate
to trust.

What it cannot do: It has no trailers, and reads no answer before its request has left. httpcore 1.0 neither resets nor reads
a stream that its caller has left, which takes all of the connection's window. And for h2 4.2 a connection is closed with the
first GOAWAY, so that the answers which follow are errors."""

import ssl
import sys

import httpx

TOTAL = 100 << 20

base, *certificate = sys.argv[1:]
trust = ssl.create_default_context(cafile=certificate[0]) if certificate else True
client = httpx.Client(base_url=base, http1=False, http2=True, timeout=60, verify=trust)


def small():
    answer = client.get("/")
    assert (answer.status_code, answer.http_version) == (200, "HTTP/2"), answer
    assert answer.text == "Hello, World!"


def echo():
    body = bytes(at * 31 % 251 for at in range(60_000))
    assert client.post("/echo", content=body).content == body
    pieces = [body[at : at + 7000] for at in range(0, len(body), 7000)]
    assert client.post("/echo", content=iter(pieces)).content == body


def download():
    read = 0
    with client.stream("GET", f"/bytes/{TOTAL}") as answer:
        assert answer.headers["content-length"] == str(TOTAL)
        for piece in answer.iter_raw():
            assert piece.count(b"x") == len(piece)
            read += len(piece)
    assert read == TOTAL, read


small()
echo()
download()
small()
print("ready", flush=True)
sys.stdin.readline()
print("done", flush=True)
