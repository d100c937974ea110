"""Binds the datagram socket that a service manager would, and prints each message as one line."""
import os, socket, sys

path = sys.argv[1]
server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
server.bind(path)
print("bound", flush=True)
while True:
    data, fds, _, _ = socket.recv_fds(server, 65536, 4)
    # The sender waits until its descriptor is closed: that is the barrier of sd_notify_barrier(3).
    for fd in fds:
        os.close(fd)
    print(data.decode().strip().replace("\n", " "), flush=True)
