"""A client of gRPC: one message or many, each way. Its argument is the address of a server."""

import queue
import sys

import grpc

channel = grpc.insecure_channel(sys.argv[1])
unary = channel.unary_unary("/test.Echo/Unary")
collect = channel.stream_unary("/test.Echo/Collect")
repeat = channel.unary_stream("/test.Echo/Repeat")
talk = channel.stream_stream("/test.Echo/Talk")


def fails(path, code, **options):
    try:
        channel.unary_unary(path)(b"", **options)
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()
    raise AssertionError(f"{path} answers")


assert unary(b"") == b""
large = bytes(at * 31 % 251 for at in range(3_000_000))
assert unary(large) == large
answer, call = unary.with_call(b"x", metadata=(("x-text", "a b"), ("x-data-bin", b"\0\xff")))
assert dict(call.initial_metadata())["x-text"] == "a b"
assert dict(call.initial_metadata())["x-data-bin"] == b"\0\xff"

messages = [bytes([at % 251]) * at for at in range(1000)]
assert int(collect(iter(messages))) == sum(map(len, messages))
assert list(repeat(b"1000")) == [str(at).encode() for at in range(1000)]

# Each message leaves once the one before it has come back.
asks = queue.SimpleQueue()
asks.put(b"0")
answers = talk(iter(asks.get, None))
for at, answer in enumerate(answers):
    assert answer == str(at).encode()
    asks.put(str(at + 1).encode() if at < 999 else None)
assert answers.code() == grpc.StatusCode.OK

assert fails("/test.Echo/Fail", grpc.StatusCode.NOT_FOUND) == "no such thing"
fails("/test.Echo/Missing", grpc.StatusCode.UNIMPLEMENTED)
fails("/test.Echo/Never", grpc.StatusCode.DEADLINE_EXCEEDED, timeout=0.2)

endless = repeat(b"1000000000")
assert next(endless) == b"0"
endless.cancel()
assert unary(b"still here") == b"still here"
print("done")
