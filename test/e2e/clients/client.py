"""A client that knows nothing of the broker: requests as it comes, led by the environment alone.

Usage: client.py URL...
"""

import os
import sys

import requests

for name, value in os.environ.items():
    print(f"{name}={value}")

session = requests.Session()
for url in sys.argv[1:]:
    own = {"Authorization": "Bearer the-clients-own"} if "passthrough" in url else {}
    for method in ("GET", "POST"):
        answer = session.request(method, url, headers=own, data=b"body " * 1000, timeout=30)
        print(answer.status_code, method, url, answer.text, dict(answer.headers))
