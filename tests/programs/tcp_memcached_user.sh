# A server with threads that becomes its own user once it listens, as its package starts it.
. "$PROGRAMS/tcp.bash"
serve memcached -u memcache -l "$SELF" -p 11211 -t 4 & server=$!
until_listening tcp 11211
client /usr/bin/python3 -c '
import socket, sys, threading
def run(n):
    s = socket.create_connection((sys.argv[1], 11211)); f = s.makefile("rb")
    for i in range(100):
        v = b"%d-%d" % (n, i) * 50
        s.sendall(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (n, len(v), v, n))
        said = [f.readline() for _ in range(4)]
        assert (said[0], said[2], said[3]) == (b"STORED\r\n", v + b"\r\n", b"END\r\n"), said
    s.close()
threads = [threading.Thread(target=run, args=(n,)) for n in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]; print("all answers")' "$SELF"
end $server
