"""Echoes datagrams and streams at a port: echo.py ADDRESS PORT [share|as USER [late]|workers N [USER]]

With `share` at a port that others may have, too; with `workers` there are streams alone, and so many
children accept from the one listener, as a user without rights if one is named. With `as` it becomes
that user first, or, if `late`, when it has bound its sockets.
"""
import os
import select
import signal
import socket
import subprocess
import sys
import time

address = (sys.argv[1], int(sys.argv[2]))
shares = sys.argv[3:] == ["share"]
def become(user):
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))


if sys.argv[3:4] == ["as"] and not sys.argv[5:]:
    become(sys.argv[4])
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if shares:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(address)
listener.listen(64)
streams = []
datagrams = None
if sys.argv[3:4] == ["workers"]:
    listener.setblocking(False)
    workers = []
    for _ in range(int(sys.argv[4])):
        worker = os.fork()
        if worker == 0:
            if sys.argv[5:]:
                become(sys.argv[5])
            break
        workers.append(worker)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        print("ready", *workers, flush=True)
        while True:
            time.sleep(1)
    # As a worker that is told to end: what it has is served, what it has not accepted is others'.
    def leave(*_):
        ends.append(True)

    ends = []
    signal.signal(signal.SIGTERM, leave)
    # It is busy with something else for a while.
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3))
else:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if shares:
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    datagrams.bind(address)
    streams.append(datagrams)
if sys.argv[3:4] == ["as"] and sys.argv[5:]:
    become(sys.argv[4])
if sys.argv[3:4] != ["workers"]:
    # Another program gets the socket, by a child of vfork(2) that shares our memory.
    signal.signal(signal.SIGUSR2, lambda *_: subprocess.run(["true"], stdin=datagrams))
    print("ready", flush=True)
    ends = []
while not ends or streams:
    if ends:
        listener.close()
    for ready in select.select([*([] if ends else [listener]), *streams], [], [], 0.1)[0]:
        if ready is datagrams:
            data, peer = datagrams.recvfrom(65536)
            datagrams.sendto(data, peer)
        elif ready is listener:
            try:
                streams.append(listener.accept()[0])
                streams[-1].setblocking(True)
            except BlockingIOError:
                pass  # Another one was faster.
        else:
            try:
                data = ready.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                ready.sendall(data)
            else:
                streams.remove(ready)
                ready.close()
