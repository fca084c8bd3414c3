"""Echoes datagrams and streams on port 7411, one after the other, until a line on standard input
says what is to become the kernel's: 'datagrams', 'streams'; or that it is to end."""
import ctypes
import select
import socket
import struct
import sys

SO_ATTACH_FILTER = 26
# "ret #-1", which lets everything pass: only the kernel does that.
INSTRUCTION = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
FILTER = struct.pack("HL", 1, ctypes.addressof(INSTRUCTION))

datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", 7411))
listener = socket.create_server(("0.0.0.0", 7411))
streams = []
print("ready", datagrams.fileno(), listener.fileno(), flush=True)
while True:
    ready, _, _ = select.select([datagrams, listener, sys.stdin, *streams], [], [])
    for one in ready:
        if one is sys.stdin:
            word = sys.stdin.readline().strip()
            if word == "datagrams":
                datagrams.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, FILTER)
            elif word == "streams":
                for stream in streams:
                    stream.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, FILTER)
            else:
                sys.exit(0)
            print(word, flush=True)
        elif one is datagrams:
            data, peer = datagrams.recvfrom(65536)
            datagrams.sendto(data, peer)
        elif one is listener:
            streams.append(listener.accept()[0])
            print("accepted", streams[-1].fileno(), flush=True)
        else:
            data = one.recv(65536)
            if data:
                one.sendall(data)
            else:
                streams.remove(one)
                one.close()
