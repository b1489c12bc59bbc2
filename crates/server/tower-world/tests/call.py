"""Calls each kind of method of the service `world.Echo` by grpcio."""
import sys

import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    one = channel.unary_unary("/world.Echo/One")
    response, call = one.with_call(b"hello", metadata=[("x-sent", "seen")], timeout=60)
    assert response == b"hello", response
    assert ("x-seen", "seen") in call.initial_metadata(), call.initial_metadata()
    try:
        one(b"refuse", timeout=60)
        raise AssertionError("it is not refused")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert error.details() == "it is refused", error
    split = channel.unary_stream("/world.Echo/Split")
    assert list(split(b"abc", timeout=60)) == [b"a", b"b", b"c"]
    join = channel.stream_unary("/world.Echo/Join")
    assert join(iter([b"a", b"bc", b""]), timeout=60) == b"abc"
    each = channel.stream_stream("/world.Echo/Each")
    assert list(each(iter([b"one", b"two"]), timeout=60)) == [b"one", b"two"]
    try:
        channel.unary_unary("/world.Echo/Nothing")(b"", timeout=60)
        raise AssertionError("there is no such method")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
print("all four kinds")
