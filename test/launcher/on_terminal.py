"""on_terminal.py COMMAND...: runs a command on a terminal of its own, presses Ctrl-C after its first line, and
prints what it wrote and, as the last line, how it ended."""
import os
import pty
import sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
written = b""
pressed = False
while True:
    try:
        chunk = os.read(terminal, 4096)
    except OSError:
        chunk = b""
    if not chunk:
        break
    written += chunk
    if not pressed and b"\n" in written:
        pressed = True
        os.write(terminal, b"\x03")
_, status = os.waitpid(pid, 0)
sys.stdout.write(written.decode().replace("\r\n", "\n"))
print(os.waitstatus_to_exitcode(status))
