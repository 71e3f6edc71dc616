"""Runs a command on a pseudo-terminal of 100 by 40: terminal.py COMMAND... Ends with its exit code."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    # Before the command starts, so that it is not told of another size in the middle of what it does.
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
sources = [terminal, 0]
while terminal in sources:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:
            # What Linux says of a terminal whose other side is closed.
            data = b""
        if not data:
            sources.remove(source)
        else:
            os.write(terminal if source == 0 else 1, data)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
