import multiprocessing, os, signal, socket, subprocess, sys, tempfile, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor


def square(n):
    return n * n


def serve(connection):
    for item in iter(connection.recv, None):
        connection.send(item.upper())


def put(queue, n):
    queue.put(n)


def main():
    run = subprocess.run
    print(run(["cat"], input=b"through cat", capture_output=True).stdout)
    print(run("exit 3", shell=True).returncode)
    print(run(["sh", "-c", "kill -9 $$"]).returncode)
    print(run(["echo", "session"], start_new_session=True, capture_output=True).stdout)
    print(run(["echo", "preexec"], preexec_fn=os.getpid, capture_output=True).stdout)
    print(run(["echo", "spawned"], close_fds=False, stdout=subprocess.PIPE).stdout)
    try:
        run(["sleep", "60"], timeout=0.1)
    except subprocess.TimeoutExpired as error:
        print(type(error), error.cmd)
    r, w = os.pipe()
    child = subprocess.Popen(["cat", f"/dev/fd/{r}"], pass_fds=[r], stdout=subprocess.PIPE)
    os.close(r); os.write(w, b"passed"); os.close(w)
    print(child.communicate()[0])

    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        ours, theirs = context.Pipe()
        server = context.Process(target=serve, args=(theirs,))
        server.start()
        ours.send("hello"); print(method, ours.recv()); ours.send(None); server.join()
        queue = context.Queue()
        putters = [context.Process(target=put, args=(queue, n)) for n in range(3)]
        [putter.start() for putter in putters]
        print(sorted(queue.get() for _ in putters)); [putter.join() for putter in putters]
    with multiprocessing.get_context("fork").Manager() as manager:
        shared = manager.dict(a=1); shared["b"] = 2; print(dict(shared))
    with ProcessPoolExecutor(2) as pool, ThreadPoolExecutor(4) as threads:
        print(list(pool.map(square, range(5))), sum(threads.map(square, range(100))))

    # A descriptor to another process, and back.
    left, right = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _, fds, _, _ = socket.recv_fds(right, 16, 1)
        os.write(fds[0], b"written by the child"); os._exit(0)
    with tempfile.TemporaryFile() as file:
        socket.send_fds(left, [b"x"], [file.fileno()]); os.waitpid(pid, 0)
        file.seek(0); print(file.read())
    # A pseudo-terminal.
    pid, fd = os.forkpty()
    if pid == 0:
        os.execlp("tty", "tty", "-s")
    print("tty", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os.close(fd)
    # Signals and threads.
    got = threading.Event()
    signal.signal(signal.SIGALRM, lambda *_: got.set())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    print(got.wait(30))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)
    print(signal.sigwait([signal.SIGUSR1]).name)
    reader, writer = socket.socketpair()
    signal.set_wakeup_fd(writer.fileno()) if writer.setblocking(False) is None else None
    signal.raise_signal(signal.SIGALRM); print(reader.recv(1)[0])
    sys.exit(5 if threading.active_count() == 1 else 1)


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        print("ends with", end.code)
