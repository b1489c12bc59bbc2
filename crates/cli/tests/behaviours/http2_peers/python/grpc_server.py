"""A server of gRPC: one message or many, each way. Prints its port, and ends in order when its stdin does."""

import sys
import threading
from concurrent import futures

import grpc

cancelled = threading.Semaphore(0)


def unary(message, context):
    context.send_initial_metadata(context.invocation_metadata()[:0] + (("x-text", "a b"),))
    context.set_trailing_metadata((("x-sum", "7"),))
    return message


def collect(messages, context):
    return str(sum(map(len, messages))).encode()


def repeat(message, context):
    return (str(at).encode() for at in range(int(message)))


def talk(messages, context):
    return messages


def fail(message, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")


def never(message, context):
    context.add_callback(cancelled.release)
    cancelled.acquire()
    cancelled.release()


def was_cancelled(message, context):
    return b"yes" if cancelled.acquire(timeout=60) else b"no"


server = grpc.server(futures.ThreadPoolExecutor(8))
handlers = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Collect": grpc.stream_unary_rpc_method_handler(collect),
    "Repeat": grpc.unary_stream_rpc_method_handler(repeat),
    "Talk": grpc.stream_stream_rpc_method_handler(talk),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Never": grpc.unary_unary_rpc_method_handler(never),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
}
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.Echo", handlers)])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
sys.stdin.read()
server.stop(grace=60).wait()
