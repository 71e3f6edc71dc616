"""A client that knows nothing of the broker: websockets as it comes, led by the environment alone.

Usage: ws_client.py URL CASE... where URL ends before the path. Prints a line of JSON for each case.
"""

import asyncio
import hashlib
import json
import os
import sys

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

base, *cases = sys.argv[1:]
MIB = 1024 * 1024


def open_to(path, **options):
    return connect(base + path, ping_interval=None, max_size=None, **options)


async def texts():
    """Texts of every length at which the form of a frame changes."""
    async with open_to("/echo") as ws:
        sizes = [0, 1, 125, 126, 127, 65535, 65536, MIB]
        for size in sizes:
            text = "ä" * (size // 2) + "x" * (size % 2)
            await ws.send(text)
            if await ws.recv() != text:
                return f"{size} bytes came back changed"
    return sizes


async def binaries():
    async with open_to("/echo", compression=None) as ws:
        for _ in range(16):
            content = os.urandom(MIB)
            await ws.send(content)
            if await ws.recv() != content:
                return "a message came back changed"
    return "16 MiB, as they were sent"


async def pipelined():
    """Many messages under way at once, both ways."""
    async with open_to("/echo", compression=None) as ws:
        sent, came = hashlib.sha256(), hashlib.sha256()

        async def send():
            for _ in range(2000):
                content = os.urandom(1000)
                sent.update(content)
                await ws.send(content)

        async def receive():
            for _ in range(2000):
                came.update(await ws.recv())

        await asyncio.gather(send(), receive())
        return sent.digest() == came.digest()


async def fragments():
    """A message in pieces, with a ping between them; and one that comes back in pieces."""
    async with open_to("/pieces", compression=None) as ws:
        text = "".join(chr(0x4E00 + index % 1000) for index in range(10_000))
        pongs = []

        async def pieces():
            for at in range(0, len(text), 777):
                yield text[at : at + 777]
                pongs.append(await ws.ping(str(at)))

        await ws.send(pieces())
        came = [piece async for piece in ws.recv_streaming()]
        for pong in pongs:
            await asyncio.wait_for(pong, 30)
        return {"whole": "".join(came) == text, "pieces": len(came), "pongs": len(pongs)}


async def pings():
    async with open_to("/ask") as ws:
        return await ws.recv()


async def protocol():
    async with open_to("/echo", subprotocols=["other", "chat"]) as ws:
        return {"protocol": ws.subprotocol, "extensions": [extension.name for extension in ws.protocol.extensions]}


async def leave():
    """The client closes, with a code and a reason of its own."""
    async with open_to("/echo/leave") as ws:
        await ws.close(4001, "going home")
        return [ws.close_code, ws.close_reason]


async def left():
    """The server closes."""
    found = []
    for code, reason in [(1000, ""), (1001, "gone"), (1011, "broken"), (4999, "own")]:
        async with open_to(f"/leave/{code}/{reason}") as ws:
            await ws.wait_closed()
            found.append([ws.close_code, ws.close_reason])
    return found


async def broken():
    async with open_to("/break") as ws:
        try:
            await ws.recv()
        except ConnectionClosed:
            return ws.close_code


async def slow():
    """Reads slower than the server sends."""
    async with open_to("/flood", compression=None, max_queue=1) as ws:
        for index in range(64):
            if index % 16 == 0:
                await asyncio.sleep(0.2)
            if await ws.recv() != bytes([index]) * MIB:
                return f"message {index} came changed"
    return "all of 64 MiB"


async def invalid():
    """Bytes that are no text in a text frame: the server says so by its code, and that comes back."""
    async with open_to("/echo/invalid", compression=None) as ws:
        ws.transport.write(b"\x81\x82\0\0\0\0\xc3\x28")
        await ws.wait_closed()
        return ws.close_code


async def refused():
    try:
        async with open_to("/refused"):
            return "opened"
    except InvalidStatus as error:
        return [error.response.status_code, error.response.body.decode()]


async def main():
    for case in cases:
        print(json.dumps({case: await globals()[case]()}), flush=True)


asyncio.run(main())
