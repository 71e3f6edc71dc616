"""A WebSocket server behind TLS that talks only to those who bring its token.

Usage: ws_server.py CERTIFICATE KEY, with the token on standard input. Prints its port, then a line of JSON for what it
saw of each connection.
"""

import asyncio
import http
import json
import ssl
import sys

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

certificate, key = sys.argv[1:]
token = sys.stdin.readline().strip()


def admit(connection, request):
    """Refuses, with a body, before there is a WebSocket."""
    if request.headers.get("Authorization") != f"Bearer {token}":
        return connection.respond(http.HTTPStatus.UNAUTHORIZED, "no token\n")
    if request.path == "/refused":
        return connection.respond(http.HTTPStatus.FORBIDDEN, "not for you\n")
    return None


def chat(_, offered):
    return "chat" if "chat" in offered else None


async def echo(connection):
    async for message in connection:
        await connection.send(message)


async def echo_in_pieces(connection):
    async for message in connection:
        await connection.send([message[at : at + 1000] for at in range(0, len(message), 1000)])


async def ask(connection):
    """Pings, and says how the pong came."""
    latency = await asyncio.wait_for(await connection.ping(b"are you there"), 30)
    await connection.send(f"pong after {latency >= 0}")
    await connection.wait_closed()


async def leave(connection):
    """Closes with what the path says: /leave/CODE/REASON."""
    _, _, code, reason = connection.request.path.split("/")
    await connection.close(int(code), reason)


async def break_off(connection):
    """Ends without a closing handshake, in the middle of a message."""
    connection.transport.write(b"\x82\x7e\x10\x00part")
    await asyncio.sleep(0.2)
    connection.transport.abort()


async def flood(connection):
    """Sends more than any buffer holds; the client reads slowly."""
    for index in range(64):
        await connection.send(bytes([index]) * 1024 * 1024)
    await connection.wait_closed()


handlers = {
    "echo": echo,
    "pieces": echo_in_pieces,
    "ask": ask,
    "leave": leave,
    "break": break_off,
    "flood": flood,
}


async def handle(connection):
    path = connection.request.path
    try:
        await handlers[path.split("/")[1]](connection)
    except ConnectionClosed:
        pass
    await connection.wait_closed()
    headers = connection.request.headers
    seen = {
        "path": path,
        "protocol": connection.subprotocol,
        "proxy": [name for name in headers if name.lower().startswith("proxy") or name.lower() == "x-vault"],
        "code": connection.close_code,
        "reason": connection.close_reason,
    }
    print(json.dumps(seen), flush=True)


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    options = {"process_request": admit, "select_subprotocol": chat, "ping_interval": None}
    async with serve(handle, "127.0.0.1", 0, ssl=context, **options) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
