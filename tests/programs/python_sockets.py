import array, asyncio, os, selectors, socket, socketserver, threading

SELF, PEER = os.environ["SELF"], os.environ["PEER"]
ECHO = (PEER, 7)


def udp(address=(SELF, 0)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(address)
    s.settimeout(30)
    return s


def plain():
    s = udp()
    for n in range(1, 1400, 200):
        s.sendto(bytes(n), ECHO)
        data, source = s.recvfrom(2048)
        print(len(data), source)
    s.connect(ECHO)
    print(s.getpeername(), s.sendmsg([b"a", b"bc", b"d"]))
    parts = [bytearray(2), bytearray(10)]
    print(s.recvmsg_into(parts)[0], parts)
    s.send(b"peeked"); print(s.recv(3, socket.MSG_PEEK), s.recv(100))
    copy = s.dup(); s.send(b"to both"); print(copy.recv(100)); copy.close()
    s.setblocking(False)
    try:
        s.recv(1)
    except BlockingIOError as error:
        print(error)
    s.settimeout(0.05)
    try:
        s.recv(1)
    except TimeoutError as error:
        print(error)
    print(s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), s.fileno() > 2)
    s.settimeout(30)
    file = s.makefile("rb"); s.send(b"line\nanother\n"); print(file.readline()); file.close()
    t = udp(); t.connect((PEER, 9))
    try:
        t.send(b"x"); t.recv(1)
    except ConnectionRefusedError as error:
        print(error)
    s.close()
    try:
        s.send(b"x")
    except OSError as error:
        print(error)


def selector(kind):
    with kind() as selector:
        sockets = [udp() for _ in range(5)]
        for n, s in enumerate(sockets):
            s.setblocking(False)
            selector.register(s, selectors.EVENT_READ, n)
            s.sendto(b"%d" % n, ECHO)
        seen = set()
        while len(seen) < 5:
            events = selector.select(30)
            assert events, seen
            for key, _ in events:
                assert key.fileobj.recv(10) == b"%d" % key.data
                seen.add(key.data)
        print(kind.__name__, sorted(seen), selector.select(0.02))
        selector.modify(sockets[0], selectors.EVENT_WRITE)
        print(len(selector.select(1)))
        selector.unregister(sockets[0]); sockets[0].close(); print(selector.select(0))
        for s in sockets:
            s.close()


class Upper(socketserver.BaseRequestHandler):
    def handle(self):
        data, s = self.request
        s.sendto(data.upper(), self.client_address)


def server(kind):
    with kind((SELF, 0), Upper) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        for host in SELF, "127.0.0.1":
            s = udp(("0.0.0.0", 0))
            s.sendto(b"to myself", server.server_address)
            print(kind.__name__, s.recvfrom(100)[0])
            s.close()
        server.shutdown(); thread.join()


class Client(asyncio.DatagramProtocol):
    def __init__(self):
        self.done = asyncio.get_running_loop().create_future()
        self.seen = []

    def connection_made(self, transport):
        for n in range(10):
            transport.sendto(b"%d" % n)

    def datagram_received(self, data, address):
        self.seen.append(data)
        if len(self.seen) == 10:
            self.done.set_result(sorted(self.seen))


async def asynchronous():
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_datagram_endpoint(Client, remote_addr=ECHO)
    print(await asyncio.wait_for(client.done, 30)); transport.close()
    clients = [await loop.create_datagram_endpoint(Client, remote_addr=ECHO) for _ in range(5)]
    print(len(await asyncio.gather(*(client.done for _, client in clients))))
    for transport, _ in clients:
        transport.close()

    async def upper(reader, writer):
        writer.write((await reader.read()).upper()); await writer.drain(); writer.close()

    async with await asyncio.start_server(upper, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x" * 300000); writer.write_eof()
        answer = await reader.read(); writer.close(); print(len(answer), answer[:3])
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    print((await child.communicate(b"to a child"))[0], child.returncode)
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.02)
    except asyncio.TimeoutError:
        print("timeout")


def from_threads():
    s = udp(); s.connect(ECHO)
    answers, lock = [], threading.Lock()

    def receive():
        while (data := s.recv(100)) != b"end":
            with lock:
                answers.append(data)

    threads = [threading.Thread(target=receive) for _ in range(4)]
    [t.start() for t in threads]
    for n in range(100):
        s.send(b"%d" % n)
    while len(answers) < 100:
        pass
    for t in threads:
        s.send(b"end")
    [t.join() for t in threads]
    print(sorted(answers)[:3], len(answers))


plain()
for kind in selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector:
    selector(kind)
server(socketserver.UDPServer)
server(socketserver.ThreadingUDPServer)
server(socketserver.ForkingUDPServer)
asyncio.run(asynchronous())
from_threads()
