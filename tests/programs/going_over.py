"""Connections to a server that echoes, each used in its own way from its first moment on, while
the library opens their interface: not an octet may be lost, changed or out of order, and no event
be told that the kernel would not tell. Prints what went wrong, and `ok` or `bad`.

Usage: going_over.py ADDRESS PORT SECONDS
"""

import os
import random
import select
import socket
import sys
import threading
import time

ADDRESS = (sys.argv[1], int(sys.argv[2]))
SECONDS = float(sys.argv[3])
# Connections of each kind.
CALLS = 3
wrong = []


def connected():
    return socket.create_connection(ADDRESS)


def ask(rng):
    """Questions and answers, blocking."""
    time.sleep(rng.random() * 0.08)
    with connected() as s:
        end = time.time() + SECONDS
        while time.time() < end:
            question = rng.randbytes(rng.choice([1, 10, 100, 1000, 5000, 60000]))
            s.sendall(question)
            answer = b""
            while len(answer) < len(question):
                data = s.recv(65536)
                if not data:
                    raise AssertionError("the stream ends")
                answer += data
            assert answer == question
            if rng.random() < 0.05:
                time.sleep(rng.random() * 0.005)


def both_ways(rng):
    """One thread writes, another reads."""
    time.sleep(rng.random() * 0.05)
    with connected() as s:
        sent, received = [], bytearray()

        def read():
            while data := s.recv(rng.choice([1, 100, 65536])):
                received.extend(data)

        reader = threading.Thread(target=read)
        reader.start()
        end = time.time() + SECONDS
        while time.time() < end:
            data = rng.randbytes(rng.choice([1, 10, 1000, 20000]))
            s.sendall(data)
            sent.append(data)
            if rng.random() < 0.3:
                time.sleep(rng.random() * 0.004)
        s.shutdown(socket.SHUT_WR)
        reader.join(30)
        assert bytes(received) == b"".join(sent), (len(received), sum(map(len, sent)))


def by_epoll(rng):
    """Nonblocking, by levels or edges."""
    with connected() as s, select.epoll() as epoll:
        s.setblocking(False)
        epoll.register(s, select.EPOLLIN | rng.choice([0, select.EPOLLET]))
        end = time.time() + SECONDS
        while time.time() < end:
            question = rng.randbytes(rng.choice([1, 100, 3000]))
            s.send(question)
            answer = b""
            while len(answer) < len(question):
                events = epoll.poll(30)
                assert [event for _, event in events] == [select.EPOLLIN], events
                while True:
                    try:
                        data = s.recv(65536)
                    except BlockingIOError:
                        break
                    assert data, "the stream ends"
                    answer += data
            assert answer == question


def by_poll(rng):
    """One thread sleeps in poll for what another asks for later."""
    with connected() as s:
        poll = select.poll()
        poll.register(s, select.POLLIN)
        end = time.time() + SECONDS
        while time.time() < end:
            asker = threading.Timer(rng.random() * 0.03, lambda: s.send(b"x"))
            asker.start()
            events = poll.poll(30000)
            assert [event for _, event in events] == [select.POLLIN], events
            assert s.recv(10) == b"x"
            asker.join()


def run(way, seed):
    try:
        way(random.Random(seed))
    except Exception as error:
        wrong.append((way.__name__, seed, repr(error)))


first = int.from_bytes(os.urandom(4), "little")
threads = [
    threading.Thread(target=run, args=(way, first + number), daemon=True)
    for number, way in enumerate([ask, both_ways, by_epoll, by_poll] * CALLS)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
if any(thread.is_alive() for thread in threads):
    wrong.append("a call does not return")
print(*wrong, "bad" if wrong else "ok", flush=True)
sys.stdin.readline()
