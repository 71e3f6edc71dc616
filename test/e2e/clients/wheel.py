"""Makes wheels, which are archives with three lists: wheel.py FOLDER NAME REQUIRES [NAME REQUIRES]...

Prints the SHA-256 of the data in each.
"""

import base64
import hashlib
import os
import sys
import zipfile

folder, *rest = sys.argv[1:]
for name, requires in zip(rest[::2], rest[1::2]):
    info = f"{name}-1.0.0.dist-info"
    needed = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}/__init__.py": f"name = {name!r}\n".encode(),
        f"{name}/data": os.urandom(3_000_000),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n{needed}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }

    def line(path, content):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(content)}\n"

    record = "".join(line(*file) for file in files.items()) + f"{info}/RECORD,,\n"
    print(hashlib.sha256(files[f"{name}/data"]).hexdigest())
    with zipfile.ZipFile(f"{folder}/{name}-1.0.0-py3-none-any.whl", "w") as wheel:
        for path, content in {**files, f"{info}/RECORD": record.encode()}.items():
            wheel.writestr(path, content)
