# Traced processes, also with threads.
strace -f -e trace=none -e signal=none -o trace sh -c '(echo child); echo parent'
tail -n 1 trace | sed 's/^[0-9]* *//'
strace -f -c -o summary -- ls "$PROGRAMS/strace.sh" | sed 's:.*/::'; grep -q calls summary && echo counted
strace -e trace=write -e status=successful -o trace echo traced; grep -c 'write(1, "traced' trace
strace -f -o /dev/null /usr/bin/python3 -c '
import socket, threading, os
def ask():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect((os.environ["PEER"], 7)); s.settimeout(30)
    s.send(b"traced datagram"); print(s.recv(100))
    s.send(b"traced datagram"); print(s.recv(100))
threads = [threading.Thread(target=ask) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]'
strace -q -e inject=getppid:error=EPERM -o /dev/null dash -c 'exit 6' || echo "strace: $?"
