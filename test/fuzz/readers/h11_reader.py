"""Reads HTTP/1.1 with h11: one frame in (length, kind, bytes), one JSON reading out."""

import json
import os
import struct

import h11

# Above the 64 KiB that a head may take on either side of the proxy.
MAX_HEAD = 256 * 1024


def latin1(raw):
    return bytes(raw).decode("latin-1")


def fields(headers):
    return [[latin1(name), latin1(value)] for name, value in headers.raw_items()]


def read(raw, connect):
    """`connect` makes a connection for each message: what one leaves over is the next one's."""
    reading = {"messages": [], "partial": None, "end": "clean", "why": ""}
    message = None
    while True:
        connection = connect()
        try:
            connection.receive_data(raw)
            connection.receive_data(b"")
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request):
                    start = [latin1(event.method), latin1(event.target)]
                elif isinstance(event, (h11.Response, h11.InformationalResponse)):
                    start = [str(event.status_code), latin1(event.reason)]
                elif isinstance(event, h11.Data):
                    message["body"] += latin1(event.data)
                    continue
                elif isinstance(event, h11.EndOfMessage):
                    message["trailers"] = fields(event.headers)
                    reading["messages"].append(message)
                    message = None
                    raw = connection.trailing_data[0]
                    break
                else:
                    # ConnectionClosed: the end came where a message may begin.
                    return reading
                message = {"start": start, "fields": fields(event.headers), "body": "", "trailers": []}
                if isinstance(event, h11.InformationalResponse):
                    reading["messages"].append(message)
                    message = None
        except h11.RemoteProtocolError as error:
            reading["why"] = str(error)
            reading["partial"] = message
            short = "peer closed connection" in str(error) or "peer unexpectedly closed" in str(error)
            reading["end"] = "incomplete" if short else "refused"
            return reading
        if not raw:
            return reading


def server():
    return h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)


def client(method):
    def connect():
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        connection.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        connection.send(h11.EndOfMessage())
        return connection

    return connect


CONNECTS = {ord("q"): server, ord("l"): server, ord("r"): client("GET"), ord("h"): client("HEAD")}


def main():
    pending = bytearray()
    while True:
        piece = os.read(0, 1 << 20)
        if not piece:
            return
        pending += piece
        answers = []
        at = 0
        while len(pending) - at >= 4:
            (size,) = struct.unpack_from(">I", pending, at)
            if len(pending) - at - 4 < size:
                break
            raw = bytes(pending[at + 5 : at + 4 + size])
            answer = json.dumps(read(raw, CONNECTS[pending[at + 4]])).encode()
            answers.append(struct.pack(">I", len(answer)) + answer)
            at += 4 + size
        del pending[:at]
        out = b"".join(answers)
        while out:
            out = out[os.write(1, out) :]


main()
