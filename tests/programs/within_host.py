"""Clients that stay connected, and check every octet."""
import hashlib
import http.client
import socket
import sys
import time

what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


def values():
    for i in range(1500):
        if i < 40:
            # The ends come to know each other.
            time.sleep(0.001)
        yield b"k%d" % (i % 100), hashlib.sha256(b"%d" % i).hexdigest().encode() * (1 + i % 700)


def redis(stream, send):
    for key, value in values():
        send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(value), value))
        assert stream.readline() == b"+OK\r\n"
        send(b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key))
        assert stream.readline() == b"$%d\r\n" % len(value)
        assert stream.read(len(value) + 2) == value + b"\r\n"


def memcached(stream, send):
    for key, value in values():
        send(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value))
        assert stream.readline() == b"STORED\r\n"
        send(b"get %b\r\n" % key)
        assert stream.readline() == b"VALUE %b 0 %d\r\n" % (key, len(value))
        assert stream.read(len(value) + 7) == value + b"\r\nEND\r\n"


if what == "http":
    connection = http.client.HTTPConnection(address, port)
    told = hashlib.md5()
    for i in range(120):
        connection.request("GET", "/numbers")
        told.update(connection.getresponse().read())
    print("http", told.hexdigest())
else:
    connection = socket.create_connection((address, port))
    {"redis": redis, "memcached": memcached}[what](connection.makefile("rb"), connection.sendall)
    print(what, "right")
