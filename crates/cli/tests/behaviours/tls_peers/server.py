"""Answers a request a connection, over TLS: /whole with a body that the end of the stream ends, /cut with one that is cut."""

import socket
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    plain, _ = listener.accept()
    try:
        connection = context.wrap_socket(plain, server_side=True)
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nsome text")
        if b"/whole" in request:
            connection.unwrap()
        connection.close()
    except OSError:
        plain.close()
