"""Streams between link-local addresses that two links have in common: fe80::1 is the peer's on both, fe80::2 this host's.

`peer`: on the other host. Else what is said must be the kernel's word, whichever stack it is."""
import errno, os, select, socket, sys, threading, time
from socket import if_indextoname, if_nametoindex

NEAR, FAR = 'fe80::2', 'fe80::1'
LINKS = {'peer': ['va', 'wa']}.get(sys.argv[1], ['vb', 'wb'])
INDEX = {name: if_nametoindex(name) for name in LINKS}
BINDTODEVICE, SO_MARK = 25, 36


def stream(at=None, *options):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.settimeout(20)
    for option in options:
        s.setsockopt(*option)
    if at:
        s.bind(at)
    return s


def receive(s, count):
    data = b''
    while len(data) < count:
        part = s.recv(count - len(data))
        if not part:
            break
        data += part
    return data


def pattern(link, count):
    return (link.encode() * count)[:count]


# On the other host.

def answer(s):
    """Says by which link a connection has come, and sends back what comes."""
    s.sendall(if_indextoname(s.getsockname()[3]).encode())
    while data := s.recv(65536):
        s.sendall(data)
    s.close()


def connect_from(link, port, to, count):
    s = stream((FAR, port, 0, INDEX[link]))
    try:
        s.connect((NEAR, to, 0, INDEX[link]))
        sent = pattern(link, count)
        threading.Thread(target=s.sendall, args=(sent,)).start()
        back = receive(s, count)
        return 'same' if back == sent else 'other data'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    finally:
        s.close()


def do(control):
    for line in control.makefile('r'):
        link, *numbers = line.split()
        said = connect_from(link, *map(int, numbers))
        control.sendall(said.encode() + b'\n')


def each(listener, what):
    while True:
        s = listener.accept()[0]
        s.settimeout(None)
        threading.Thread(target=what, args=(s,), daemon=True).start()


def peer():
    listener = stream(('::', 7000))
    control = socket.create_server(('10.77.0.1', 7100))
    for s in listener, control:
        s.settimeout(None)
        s.listen()
    threading.Thread(target=each, args=(listener, answer), daemon=True).start()
    threading.Thread(target=each, args=(control, do), daemon=True).start()
    print('ready', flush=True)
    sys.stdin.read()


# On this one.

def say(what, call):
    try:
        seen = call()
    except OSError as error:
        seen = errno.errorcode[error.errno]
    print(f'{what}: {seen}', flush=True)


def shown(address):
    ip, port, flow, scope = address
    port -= BASE if port >= BASE else 0
    return ip, port, flow, if_indextoname(scope) if scope else scope


def ends(s):
    return shown(s.getsockname()), shown(s.getpeername())


def errors():
    say('bind without a scope', lambda: stream((NEAR, BASE + 1)))
    say('bind to another link', lambda: stream((NEAR, BASE + 1, 0, 1)))
    s = stream()
    say('connect without a scope', lambda: s.connect((FAR, 7000)))
    say('connect to no link', lambda: s.connect((FAR, 7000, 0, 77)))
    s = stream((NEAR, BASE + 2, 0, INDEX['vb']))
    say('connect by another link', lambda: s.connect((FAR, 7000, 0, INDEX['wb'])))
    s = stream((NEAR, BASE + 3, 0, INDEX['vb']))
    say('nobody listens', lambda: s.connect((FAR, 7001, 0, INDEX['vb'])))
    say('to a group', lambda: stream().connect(('ff02::1', 7000, 0, INDEX['vb'])))
    device = socket.SOL_SOCKET, BINDTODEVICE, b'wb'
    s = stream((NEAR, BASE + 4), device)
    say('with a device', lambda: s.connect((FAR, 7000)))
    say('its ends', lambda: ends(s))
    say('by', lambda: receive(s, 2))
    # A socket that has failed for want of a scope may have one.
    s = stream(('::', BASE + 6))
    say('no scope', lambda: s.connect((FAR, 7000)))
    say('now with one', lambda: s.connect((FAR, 7000, 0, INDEX['wb'])))
    say('by', lambda: receive(s, 2))
    return [s]


def own_address():
    at = NEAR, BASE + 5, 0, INDEX['vb']
    listener, client = stream(at), stream()
    listener.listen()
    say('to this host', lambda: client.connect(at))
    accepted = listener.accept()[0]
    client.sendall(b'here')
    say('over loopback', lambda: receive(accepted, 4))
    say('the same link', lambda: shown(accepted.getsockname())[3])
    for s in accepted, client, listener:
        s.close()


def clients():
    """The same ports on both links at once."""
    made = []
    for link in LINKS:
        # The interface is known by the address of either end.
        for port, at, scope in (10, NEAR, INDEX[link]), (11, NEAR, 0):
            s = stream((at, BASE + port, 0, INDEX[link]))
            say('connect', lambda: s.connect((FAR, 7000, 0, scope)))
            made.append(s)
        s = stream(('::', BASE + 12 + len(made)))
        say('unbound', lambda: s.connect((FAR, 7000, 0, INDEX[link])))
        made.append(s)
    for s in made:
        say('ends', lambda: ends(s))
        say('by', lambda: receive(s, 2))
    for number, s in enumerate(made):
        s.sendall(pattern(str(number), 5000))
    for number, s in enumerate(made):
        say('echo', lambda: receive(s, 5000) == pattern(str(number), 5000))
    return made


def echo(listener, count):
    s, of = listener.accept()
    say('accepted', lambda: shown(of))
    say('ends', lambda: ends(s))
    data = receive(s, count)
    s.sendall(data)
    say('data', lambda: (len(data), data[:2]))
    return s


def servers():
    controls = [socket.create_connection(('10.77.0.1', 7100)) for _ in range(2)]
    files = [s.makefile('rw') for s in controls]

    def ask(number, link, to):
        files[number].write(f'{link} {BASE + 20} {to} 100000\n')
        files[number].flush()

    made = []
    # Both at once, of the same address and port.
    listener = stream(('::', BASE + 30))
    listener.listen()
    say('listens', lambda: shown(listener.getsockname()))
    made.append(listener)
    for number, link in enumerate(['va', 'wa']):
        ask(number, link, BASE + 30)
        s = listener.accept()[0]
        say('ends', lambda: ends(s))
        made.append(s)
    for s in made[1:]:
        data = receive(s, 100000)
        s.sendall(data)
        say('data', lambda: (len(data), data[:2]))
    for file in files:
        say('the peer has', lambda: file.readline())
    # At the address of one link, and then at that of either.
    for port, links in (31, ['vb']), (32, ['vb', 'wb']):
        near = []
        for link in links:
            s = stream((NEAR, BASE + port, 0, INDEX[link]))
            s.listen()
            near.append(s)
            say('listens', lambda: shown(s.getsockname()))
        for number, link in enumerate(['va', 'wa']):
            ask(number, link, BASE + port)
        for s in near:
            made.append(s)
            made.append(echo(s, 100000))
        for file in files:
            say('the peer has', lambda: file.readline())
        if len(links) == 1:
            near[0].close()
    return made


def returns(made):
    """To the kernel, with what was received and not read."""
    for number, s in enumerate(made):
        s.sendall(pattern(str(number), 5000))
        s.recv(5000, socket.MSG_PEEK | socket.MSG_WAITALL)
        s.setsockopt(socket.SOL_SOCKET, SO_MARK, 0)
        s.sendall(pattern(str(number), 5000))
        say('after a return', lambda: receive(s, 10000) == pattern(str(number), 10000))
        say('ends', lambda: ends(s))


def forked():
    """A child accepts what has come before the fork."""
    control = socket.create_connection(('10.77.0.1', 7100))
    other = socket.create_connection(('10.77.0.1', 7100))
    for port, at, scope, links in (33, '::', 0, ['va', 'wa']), (34, NEAR, INDEX['wb'], ['wa']):
        listener = stream((at, BASE + port, 0, scope))
        listener.listen()
        for s, link in zip((control, other), links):
            s.sendall(f'{link} {BASE + 21} {BASE + port} 100000\n'.encode())
            select.select([listener], [], [], 20)
            # What has room for it is here.
            time.sleep(0.2)
        child = os.fork()
        if not child:
            for _ in links:
                echo(listener, 100000)
            os._exit(0)
        os.waitpid(child, 0)
        for s, _ in zip((control, other), links):
            say('the peer has', lambda: s.recv(100))
        listener.close()


def stay():
    """For each line that is read all streams are to carry something."""
    made = clients()
    print('ready', flush=True)
    for line in sys.stdin:
        for number, s in enumerate(made):
            s.sendall(pattern(str(number), 3000))
        for number, s in enumerate(made):
            say(line.strip(), lambda: receive(s, 3000) == pattern(str(number), 3000))
        print('after', line.strip(), flush=True)


BASE = int(sys.argv[2]) if len(sys.argv) > 2 else 0
if sys.argv[1] == 'peer':
    peer()
elif sys.argv[1] == 'stay':
    stay()
else:
    errors_left = errors()
    own_address()
    kept = errors_left + clients() + servers()
    returns(kept[:4])
    forked()
    print('ready', flush=True)
    sys.stdin.read()
