"""A package index behind TLS: pypiserver, which shows and hands out nothing without the user's name and password.

Usage: pypi.py PACKAGES CERTIFICATE KEY, with the lines NAME and PASSWORD on standard input. Prints its port.
"""

import ssl
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

import pypiserver

packages, certificate, key = sys.argv[1:]
user = (sys.stdin.readline().strip(), sys.stdin.readline().strip())


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


application = pypiserver.app(
    roots=[packages],
    authenticate=["list", "download", "update"],
    auther=lambda *given: given == user,
    disable_fallback=True,
)
server = make_server("127.0.0.1", 0, application, Server)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
