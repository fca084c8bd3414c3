//! The functions of the C library that the library stands before: the one table from which exports
//! (`hooks.rs`) and the addresses of the real functions (`real.rs`) are made. The built library is
//! held to it by `tests/tools/exports.rs`.
//!
//! A line is a prototype as the C library's headers have it (a variadic third argument, which comes
//! in the same register, has its type), where its hook is, and above it what the hook is for:
//!
//! * `=> <module>`: the function of this name in `hooks::<module>`;
//! * `=> creates`: makes a descriptor that is not ours. What its number stood for is forgotten: it
//!   may have been closed in a way that no hook has seen;
//! * `=> variadic`: exported by `hooks::process::variadic`, `hooks::stream::variadic` or
//!   `hooks::raw` itself, on AMD64;
//! * `=> called`: not exported, only called.
//!
//! Functions that are not here need nothing: what they do is right for a socket of ours as it is,
//! because the kernel's socket stands behind the descriptor: `pread`, `pwrite`, `preadv`, `pwritev`
//! (a socket has no offsets), `tee`, `vmsplice`, `copy_file_range` (it is no pipe and no file),
//! `isfdtype`; and `__res_iclose` (the resolver's sockets are made inside the C library and never
//! ours). `tests/c/hook_kinds.c` calls every function of the table on descriptors of every kind.

macro_rules! interposed {
    ($apply:ident) => {
        $apply! {
            /// Its sockets of IPv4 and IPv6 become ours.
            fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int => descriptor;
            /// Ends what the descriptor stands for; the library's own stay open.
            fn close(fd: c_int) -> c_int => descriptor;
            /// Another name of `close`.
            fn __close(fd: c_int) -> c_int => descriptor;
            /// As `close`, for many.
            fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int => descriptor;
            /// As `close`, for many.
            fn closefrom(first: c_int) -> () => descriptor;
            /// libuv's `close`, `recvmmsg` and `sendmmsg`. Everything else that means the kernel
            /// goes past the hooks here, this library included.
            fn syscall(number: c_long, first: c_long) -> c_long => variadic;
            /// Two descriptors for one socket of ours.
            fn dup(fd: c_int) -> c_int => descriptor;
            /// As `dup`, and ends what the second number stood for.
            fn dup2(old: c_int, new: c_int) -> c_int => descriptor;
            /// Another name of `dup2`.
            fn __dup2(old: c_int, new: c_int) -> c_int => descriptor;
            /// As `dup2`.
            fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int => descriptor;

            /// Descriptors of other kinds.
            fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// As `open`.
            fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// Another name of `open`.
            fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// Another name of `open64`.
            fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// `open` with `_FORTIFY_SOURCE`.
            fn __open_2(path: *const c_char, flags: c_int) -> c_int => creates;
            /// `open64` with `_FORTIFY_SOURCE`.
            fn __open64_2(path: *const c_char, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// As `open`.
            fn openat64(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int => creates;
            /// `openat` with `_FORTIFY_SOURCE`.
            fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int => creates;
            /// `openat64` with `_FORTIFY_SOURCE`.
            fn __openat64_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn creat(path: *const c_char, mode: mode_t) -> c_int => creates;
            /// As `open`.
            fn creat64(path: *const c_char, mode: mode_t) -> c_int => creates;
            /// As `open`, two of them.
            fn pipe(fds: *mut c_int) -> c_int => create;
            /// Another name of `pipe`.
            fn __pipe(fds: *mut c_int) -> c_int => create;
            /// As `pipe`.
            fn pipe2(fds: *mut c_int, flags: c_int) -> c_int => create;
            /// As `pipe`.
            fn socketpair(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int => create;
            /// Connections may have come past the kernel.
            fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int => setup;
            /// As `accept`.
            fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int => setup;
            /// A set becomes ours with its first socket of ours.
            fn epoll_create(size: c_int) -> c_int => create;
            /// As `epoll_create`.
            fn epoll_create1(flags: c_int) -> c_int => create;
            /// As `open`.
            fn eventfd(count: c_uint, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn timerfd_create(clock: c_int, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn memfd_create(name: *const c_char, flags: c_uint) -> c_int => creates;
            /// As `open`.
            fn inotify_init() -> c_int => creates;
            /// As `open`.
            fn inotify_init1(flags: c_int) -> c_int => creates;
            /// As `open`.
            fn mkostemp(template: *mut c_char, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int => creates;
            /// As `open`.
            fn mkstemp(template: *mut c_char) -> c_int => creates;
            /// As `open`.
            fn mkstemp64(template: *mut c_char) -> c_int => creates;

            /// The addresses decide whether the socket can be accelerated.
            fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int => setup;
            /// As `bind`.
            fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int => setup;
            /// Another name of `connect`.
            fn __connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int => setup;
            /// Ends calls on the kernel's socket, so they have to be the kernel's.
            fn shutdown(fd: c_int, how: c_int) -> c_int => setup;
            /// Timeouts, buffers and headers follow; some options need the kernel.
            fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int => options;
            /// Connections come past the kernel from here on.
            fn listen(fd: c_int, backlog: c_int) -> c_int => setup;
            /// A send may be sent_dummy; the answer is the kernel's.
            fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int => setup;
            /// The kernel's answer, but for a connection of ours that is not established.
            fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int => setup;
            /// The kernel's answer, but for errors that a call has met after it had received
            /// something (`SO_ERROR`).
            fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int => options;
            /// Copies (`F_DUPFD`) and `O_NONBLOCK`.
            fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int => control;
            /// `fcntl` of programs built for 64-bit file offsets.
            fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int => control;
            /// Another name of `fcntl`.
            fn __fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int => control;
            /// `FIONBIO`, and `FIONREAD` of what is queued here.
            fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int => control;
            /// `ioctl` with `SIOCATMARK`, past the hook.
            fn sockatmark(fd: c_int) -> c_int => control;

            /// The datagram may have come past the kernel.
            fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t => receive;
            /// Another name of `read`.
            fn __read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t => receive;
            /// `read` with `_FORTIFY_SOURCE`.
            fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t) -> ssize_t => receive;
            /// As `read`.
            fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t => receive;
            /// As `read`.
            fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t => receive;
            /// `recv` with `_FORTIFY_SOURCE`.
            fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int) -> ssize_t => receive;
            /// As `read`.
            fn recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t => receive;
            /// `recvfrom` with `_FORTIFY_SOURCE`.
            fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, len: size_t, size: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t => receive;
            /// `readv` with flags, at offset -1.
            fn preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t => receive;
            /// As `preadv2`.
            fn preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t => receive;
            /// As `read`. Descriptors in the message (`SCM_RIGHTS`) are as if made by `open`.
            fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t => receive;
            /// As `recvmsg`.
            fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int => receive_many;

            /// The datagram can go past the kernel.
            fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t => send;
            /// Another name of `write`.
            fn __write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t => send;
            /// As `write`.
            fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t => send;
            /// `writev` with flags, at offset -1.
            fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t => send;
            /// As `pwritev2`.
            fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t => send;
            /// As `write`.
            fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t => send;
            /// Another name of `send`.
            fn __send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t => send;
            /// As `write`.
            fn sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t => send;
            /// As `write`. Whoever receives a descriptor of ours in a message knows the kernel's
            /// socket only.
            fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t => send;
            /// As `sendmsg`.
            fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int => send;

            /// A socket of ours may be ready without the kernel's knowing.
            fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => poll;
            /// Another name of `poll`.
            fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => poll;
            /// `poll` with `_FORTIFY_SOURCE`.
            fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, size: size_t) -> c_int => poll;
            /// As `poll`.
            fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int => poll;
            /// `ppoll` with `_FORTIFY_SOURCE`.
            fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t, size: size_t) -> c_int => poll;
            /// As `poll`.
            fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int => select;
            /// Another name of `select`.
            fn __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int => select;
            /// As `poll`.
            fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int => select;
            /// A set with sockets of ours in it becomes ours, too.
            fn epoll_ctl(epfd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int => epoll;
            /// As `poll`.
            fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int => epoll;
            /// As `poll`.
            fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int => epoll;
            /// As `poll`.
            fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int => epoll;

            /// Octets go between a pipe and a stream of ours. Of other sockets the kernel moves the
            /// data, so it has to have them; a datagram may stay open for more (`MSG_MORE`).
            fn splice(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t, len: size_t, flags: c_uint) -> ssize_t => transfer;
            /// A stream of ours has the file read into its queue; of a datagram socket the kernel
            /// sends it, as of `splice`.
            fn sendfile(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t => transfer;
            /// As `sendfile`.
            fn sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t => transfer;
            /// A thread of the C library reads, past every hook.
            fn aio_read(control: *mut aiocb) -> c_int => transfer;
            /// As `aio_read`.
            fn aio_read64(control: *mut aiocb) -> c_int => transfer;
            /// As `aio_read`: the octets of a stream are in order.
            fn aio_write(control: *mut aiocb) -> c_int => transfer;
            /// As `aio_write`.
            fn aio_write64(control: *mut aiocb) -> c_int => transfer;
            /// As `aio_read` and `aio_write`.
            fn lio_listio(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int => transfer;
            /// As `aio_read` and `aio_write`.
            fn lio_listio64(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int => transfer;

            /// The C library reads streams past every hook.
            fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE => stream;
            /// The C library writes past every hook.
            fn dprintf(fd: c_int, format: *const c_char) -> c_int => variadic;
            /// `dprintf` with `_FORTIFY_SOURCE`.
            fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int => variadic;
            /// As `dprintf`; the list is a pointer on AMD64, where it is an array.
            fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int => stream;
            /// `vdprintf` with `_FORTIFY_SOURCE`.
            fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int => stream;
            /// As `dprintf`: the C library writes.
            fn backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> () => stream;
            /// As `close`, which the C library does past the hook.
            fn fclose(stream: *mut FILE) -> c_int => stream;
            /// As `fclose`. Standard error may be another file then, which is where the log goes.
            fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE => stream;
            /// As `freopen`.
            fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE => stream;

            /// Handlers run inside a wrapper, which tells calls that poll that they are
            /// interrupted.
            fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int => signal;
            /// As `sigaction`.
            fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int => signal;
            /// As `sigaction`.
            fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// As `sigaction`.
            fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// As `sigaction`.
            fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// As `sigaction`.
            fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// As `sigaction`: `signal` of programs built for ISO C.
            fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// As `sigaction`.
            fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t => signal;
            /// Changes whether a handler interrupts calls.
            fn siginterrupt(signal: c_int, flag: c_int) -> c_int => signal;

            /// The new program finds in its sockets what waits for it in user space.
            fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int => process;
            /// As `execve`.
            fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int => process;
            /// As `execve`.
            fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int => process;
            /// As `execve`.
            fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int => process;
            /// As `execve`.
            fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int => process;
            /// As `execve`.
            fn execveat(directory: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int => process;
            /// As `execve`; the arguments are the call's own.
            fn execl(path: *const c_char, argument: *const c_char) -> c_int => variadic;
            /// As `execl`.
            fn execlp(file: *const c_char, argument: *const c_char) -> c_int => variadic;
            /// As `execl`.
            fn execle(path: *const c_char, argument: *const c_char) -> c_int => variadic;
            /// A child goes on with the sockets, and with what waits in them.
            fn _exit(status: c_int) -> ! => process;
            /// As `_exit`.
            fn _Exit(status: c_int) -> ! => process;
            /// As `_exit`: the process that calls it ends in the C library.
            fn daemon(stays_in_directory: c_int, keeps_streams: c_int) -> c_int => process;
            /// The program that is started uses the descriptor.
            fn posix_spawn_file_actions_adddup2(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int, new: c_int) -> c_int => process;
            /// What the program is started with is shared with it from here on.
            fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *const c_char, environment: *const *const c_char) -> c_int => spawn;
            /// As `posix_spawn`.
            fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *const c_char, environment: *const *const c_char) -> c_int => spawn;
            /// As `posix_spawn`, of a shell.
            fn system(command: *const c_char) -> c_int => spawn;
            /// As `system`.
            fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE => spawn;
            /// Connections return to the kernel before the right goes that this takes.
            fn setuid(user: uid_t) -> c_int => rights;
            /// As `setuid`, for a while in most programs.
            fn seteuid(user: uid_t) -> c_int => rights;
            /// As `setuid`.
            fn setreuid(real: uid_t, effective: uid_t) -> c_int => rights;
            /// As `setuid`.
            fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int => rights;
            /// As `setuid`, for the calling thread.
            fn capset(header: *mut c_void, sets: *const c_void) -> c_int => rights;
            /// A user namespace takes a process of one thread.
            fn unshare(flags: c_int) -> c_int => rights;
            /// As `unshare`.
            fn setns(fd: c_int, kind: c_int) -> c_int => rights;
            /// Filters of system calls (`PR_SET_SECCOMP`) may forbid what the library needs.
            fn prctl(option: c_int, first: c_ulong, second: c_ulong, third: c_ulong, fourth: c_ulong) -> c_int => filter;
            /// A thread that may be cancelled at any instruction is not while it is in the library.
            fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int => thread;
            /// Where a thread that polls can be cancelled.
            fn pthread_testcancel() -> () => called;
        }
    };
}
pub(crate) use interposed;
