"""Asks a memcached over UDP, whose datagrams have a header of four 16-bit numbers, and over TCP."""
import os, socket, struct

server = (os.environ["SELF"], 11211)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(30)


def ask(number, text):
    udp.sendto(struct.pack(">4H", number, 0, 1, 0) + text, server)
    parts, count = {}, 1
    while len(parts) < count:
        answer = udp.recv(2000)
        request, sequence, count, _ = struct.unpack(">4H", answer[:8])
        assert request == number, (request, number)
        parts[sequence] = answer[8:]
    return b"".join(parts[n] for n in range(count))


print(ask(1, b"set a 0 0 5\r\nhello\r\n"))
for n in range(2, 300):
    assert ask(n, b"get a\r\n") == b"VALUE a 0 5\r\nhello\r\nEND\r\n"
with socket.create_connection(server) as tcp:
    tcp.sendall(b"set big 0 0 20000\r\n" + b"x" * 20000 + b"\r\nget a\r\n")
    seen = b""
    while not seen.endswith(b"END\r\n"):
        seen += tcp.recv(4096)
    print(seen)
print(len(ask(400, b"get big\r\n")), ask(401, b"get absent\r\n"), ask(402, b"delete a\r\n"))
