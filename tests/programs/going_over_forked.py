"""Connections that are shared with a child while the library opens their interface: parent and
child use them in turn, as on the kernel. Prints what went wrong, and `ok` or `bad`.

Usage: going_over_forked.py ADDRESS PORT
"""

import os
import socket
import sys
import time

ADDRESS = (sys.argv[1], int(sys.argv[2]))
wrong = []


def ask(s, question):
    s.sendall(question)
    answer = b""
    while len(answer) < len(question):
        data = s.recv(100)
        assert data, "the stream ends"
        answer += data
    assert answer == question, (question, answer)


def child(s):
    for number in range(150):
        ask(s, b"child %d" % number)
        time.sleep(0.001)


def look(s):
    """The parent uses it, too, and takes nothing."""
    time.sleep(0.15)
    try:
        s.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        pass


for parents_part in (lambda s: None, look, socket.socket.close):
    for pause in (0, 0.01):
        s = socket.create_connection(ADDRESS)
        ask(s, b"first")
        time.sleep(pause)
        process = os.fork()
        if process == 0:
            child(s)
            os._exit(0)
        parents_part(s)
        _, status = os.waitpid(process, 0)
        if status:
            wrong.append((parents_part, pause, status))
        if s.fileno() >= 0:
            ask(s, b"last")
            s.close()
print(*wrong, "bad" if wrong else "ok", flush=True)
sys.stdin.readline()
