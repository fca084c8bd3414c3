"""Echoes datagrams and streams at a port: echo.py ADDRESS PORT"""
import select
import socket
import sys

address = (sys.argv[1], int(sys.argv[2]))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(address)
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(address)
listener.listen(64)
print("ready", flush=True)
streams = []
while True:
    for ready in select.select([datagrams, listener, *streams], [], [])[0]:
        if ready is datagrams:
            data, peer = datagrams.recvfrom(65536)
            datagrams.sendto(data, peer)
        elif ready is listener:
            streams.append(listener.accept()[0])
        else:
            data = ready.recv(65536)
            if data:
                ready.sendall(data)
            else:
                streams.remove(ready)
                ready.close()
