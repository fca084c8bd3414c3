"""Echoes datagrams and streams at a port: echo.py ADDRESS PORT [share]

With `share` streams alone, at a port that others may have, too.
"""
import select
import socket
import sys

address = (sys.argv[1], int(sys.argv[2]))
shares = sys.argv[3:] == ["share"]
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if shares:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(address)
listener.listen(64)
streams = []
datagrams = None
if not shares:
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(address)
    streams.append(datagrams)
print("ready", flush=True)
while True:
    for ready in select.select([listener, *streams], [], [])[0]:
        if ready is datagrams:
            data, peer = datagrams.recvfrom(65536)
            datagrams.sendto(data, peer)
        elif ready is listener:
            streams.append(listener.accept()[0])
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
