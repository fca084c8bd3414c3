/* Every function that the library stands before, on a descriptor of every kind. A case is a kind: for each function it makes a fresh
   descriptor for which something waits, calls, says what came of it, and whether the descriptor is of use afterwards.

   `names` says which functions there are: the test compares them with the library's table. */
#include "case.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <aio.h>
#include <dirent.h>
#include <execinfo.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#define ECHO_PORT 7100
#define CALLER_PORT 7101
#define LEN 20

enum kind { UDP, STREAM, LISTENER, FRESH, KERNELS, SET, OWN };

static enum kind kind;
/* The call has closed the descriptor. */
static int is_gone;
/* Others that a call needs; `member` is in the set if that is the kind. */
static int pipes[2], file, set, member;
static char data[4096];

static void handler(int signal)
{
    (void)signal;
}

/* Functions without a prototype of the headers': of `_FORTIFY_SOURCE`, and other names. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
int __sigaction(int, const struct sigaction *, struct sigaction *);
int capget(void *, void *);
int capset(void *, const void *);
sighandler_t __sysv_signal(int, sighandler_t);
sighandler_t bsd_signal(int, sighandler_t);
sighandler_t ssignal(int, sighandler_t);
sighandler_t sysv_signal(int, sighandler_t);
sighandler_t sigset(int, sighandler_t);
int siginterrupt(int, int);
int __dprintf_chk(int, int, const char *, ...);
int __vdprintf_chk(int, int, const char *, va_list);
ssize_t __read(int, void *, size_t);
ssize_t __write(int, const void *, size_t);
ssize_t __send(int, const void *, size_t, int);
int __close(int);
int __connect(int, const struct sockaddr *, socklen_t);
int __dup2(int, int);
int __fcntl(int, int, ...);
int __open(const char *, int, ...);
int __open64(const char *, int, ...);
int __pipe(int *);
int __poll(struct pollfd *, nfds_t, int);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);

static void say_data(const char *what, long result)
{
    say(what, result);
    if (result > 0)
        printf("  %.*s\n", (int)(result < 30 ? result : 30), data);
}

/* A descriptor of another kind, which is of no use. */
static void say_made(const char *what, int fd)
{
    say(what, fd < 0 ? fd : 0);
    if (fd >= 0)
        MUST(close(fd));
}

/* Of the library's own it may be seen that it is no directory, and the like: only that it fails. */
static void say_opened(const char *what, int fd)
{
    if (kind == OWN)
        printf("%s: %d\n", what, fd < 0 ? fd : 0);
    else
        say(what, fd < 0 ? fd : 0);
    if (fd >= 0 && kind != SET)
        close(fd);
}

static void say_polled(const char *what, long result, const struct pollfd *polled)
{
    say(what, result);
    printf("  %x\n", polled->revents);
}

static void say_selected(const char *what, int fd, long result, fd_set *readable)
{
    say(what, result);
    printf("  %d\n", result > 0 && FD_ISSET(fd, readable));
}

static void say_name(const char *what, long result, const struct sockaddr_in *name)
{
    say(what, result);
    if (result >= 0)
        printf("  family %d\n", name->sin_family);
}

static void say_stream(const char *what, FILE *stream)
{
    say(what, stream ? 0 : -1);
    if (!stream)
        return;
    setvbuf(stream, NULL, _IONBF, 0);
    printf("  read %zu, error %d\n", fread(data, 1, 5, stream), ferror(stream));
}

/* In another process, which ends in it. */
static void in_child(const char *what, void (*run)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        run();
        syscall(SYS_exit_group, 9);
    }
    MUST(waitpid(child, &status, 0));
    printf("%s: status %d\n", what, WEXITSTATUS(status));
}

static void exit_at_once(void)
{
    _exit(3);
}

static void exit_as_c_says(void)
{
    _Exit(4);
}

static pid_t spawned;
static char *const true_arguments[] = {"true", NULL};

static void say_spawned(const char *name, int error)
{
    int status = -1;
    printf("%s %d\n", name, error);
    if (error == 0)
        MUST(waitpid(spawned, &status, 0));
    printf("  ended %x\n", status);
}

static void become_a_daemon(void)
{
    _exit(daemon(1, 1) == 0 ? 5 : 6);
}

/* The thread keeps what it may do. */
static int set_capabilities(void)
{
    struct { unsigned version; int thread; } header = {0x20080522, 0};
    struct { unsigned effective, permitted, inheritable; } sets[2];
    MUST(capget(&header, sets));
    return capset(&header, sets);
}

static void await_asynchronous(const char *what, int begun, struct aiocb *control)
{
    const struct aiocb *waited[] = {control};
    if (begun < 0) {
        /* The C library may say it here or there. */
        say(what, begun);
        return;
    }
    MUST(aio_suspend(waited, 1, NULL));
    errno = aio_error(control);
    say(what, aio_return(control));
}

static void say_listed(const char *what, int result, struct aiocb *control)
{
    if (kind == OWN) {
        printf("%s: %d\n", what, result);
        return;
    }
    say(what, result);
    errno = aio_error(control);
    say("  returned", aio_return(control));
}

static int print_with_list(int checked, int fd, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int result = checked ? __vdprintf_chk(fd, 1, format, list) : vdprintf(fd, format, list);
    va_end(list);
    return result;
}

#define POLLED struct pollfd polled = {fd, POLLIN, 0}; struct timespec now = {0, 0}
#define SELECTED fd_set readable; struct timeval now = {0, 0}; struct timespec nanos = {0, 0}; FD_ZERO(&readable); FD_SET(fd, &readable)
#define PART struct iovec part = {data, 64}
#define TO_SEND struct iovec part = {"twelve bytes", 12}
#define NAME struct sockaddr_in name = {0}; socklen_t len = sizeof name; struct sockaddr *to = (struct sockaddr *)&name
#define MESSAGE PART; struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}
#define MESSAGE_TO_SEND TO_SEND; struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}
#define ACTION struct sigaction action = {.sa_handler = handler}
#define CONTROL(buffer, count) struct aiocb control = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = count}
static char *const no_arguments[] = {NULL};

/* What a function is called with; `fd` is the descriptor. */
#define CALLS(CALL)                                                                                                                  \
    CALL(socket, say_made("socket", socket(AF_INET, SOCK_DGRAM, 0)))                                                                 \
    CALL(close, say("close", close(fd)); is_gone = 1)                                                                                \
    CALL(__close, say("__close", __close(fd)); is_gone = 1)                                                                          \
    CALL(close_range, say("close_range", close_range((unsigned)fd, (unsigned)fd, 0)); is_gone = 1)                                   \
    CALL(closefrom, closefrom(fd); is_gone = 1)                                                                                      \
    CALL(syscall, say("syscall", syscall(SYS_close, kind == OWN ? -1 : fd)); is_gone = 1)                                            \
    CALL(dup, int copy = dup(fd); say_made("dup", copy))                                                                             \
    CALL(dup2, int copy = dup2(fd, pipes[0]); say("dup2", copy < 0 ? copy : 0); if (copy >= 0) say_data("  read", recv(copy, data, 64, MSG_DONTWAIT)))       \
    CALL(__dup2, int copy = __dup2(fd, pipes[0]); say("__dup2", copy < 0 ? copy : 0); if (copy >= 0) say_data("  read", recv(copy, data, 64, MSG_DONTWAIT))) \
    CALL(dup3, int copy = dup3(fd, pipes[0], O_CLOEXEC); say("dup3", copy < 0 ? copy : 0))                                           \
    CALL(open, say_made("open", open("/proc/self/comm", O_RDONLY)))                                                                  \
    CALL(open64, say_made("open64", open64("/proc/self/comm", O_RDONLY)))                                                            \
    CALL(__open, say_made("__open", __open("/proc/self/comm", O_RDONLY)))                                                            \
    CALL(__open64, say_made("__open64", __open64("/proc/self/comm", O_RDONLY)))                                                      \
    CALL(__open_2, say_made("__open_2", __open_2("/proc/self/comm", O_RDONLY)))                                                      \
    CALL(__open64_2, say_made("__open64_2", __open64_2("/proc/self/comm", O_RDONLY)))                                                \
    CALL(openat, say_opened("openat", openat(fd, "comm", O_RDONLY)))                                                                   \
    CALL(openat64, say_opened("openat64", openat64(fd, "comm", O_RDONLY)))                                                             \
    CALL(__openat_2, say_opened("__openat_2", __openat_2(fd, "comm", O_RDONLY)))                                                       \
    CALL(__openat64_2, say_opened("__openat64_2", __openat64_2(fd, "comm", O_RDONLY)))                                                 \
    CALL(creat, say_made("creat", creat("/no/such/directory/file", 0600)))                                                           \
    CALL(creat64, say_made("creat64", creat64("/no/such/directory/file", 0600)))                                                     \
    CALL(pipe, int both[2]; say("pipe", pipe(both)); say_made("  one", both[0]); say_made("  other", both[1]))                       \
    CALL(__pipe, int both[2]; say("__pipe", __pipe(both)); say_made("  one", both[0]); say_made("  other", both[1]))                 \
    CALL(pipe2, int both[2]; say("pipe2", pipe2(both, O_CLOEXEC)); say_made("  one", both[0]); say_made("  other", both[1]))         \
    CALL(socketpair, int both[2]; say("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, both)); say_made("  one", both[0]); say_made("  other", both[1])) \
    CALL(accept, NAME; int accepted = accept(fd, to, &len); say_name("accept", accepted < 0 ? accepted : 0, &name); if (accepted >= 0) close(accepted))   \
    CALL(accept4, NAME; int accepted = accept4(fd, to, &len, SOCK_NONBLOCK); say_name("accept4", accepted < 0 ? accepted : 0, &name); if (accepted >= 0) close(accepted)) \
    CALL(epoll_create, say_made("epoll_create", epoll_create(1)))                                                                    \
    CALL(epoll_create1, say_made("epoll_create1", epoll_create1(0)))                                                                 \
    CALL(eventfd, say_made("eventfd", eventfd(0, 0)))                                                                                \
    CALL(timerfd_create, say_made("timerfd_create", timerfd_create(CLOCK_MONOTONIC, 0)))                                             \
    CALL(signalfd, sigset_t none; sigemptyset(&none); say_made("signalfd of one", signalfd(-1, &none, 0)); say_opened("signalfd", signalfd(fd, &none, 0)))      \
    CALL(memfd_create, say_made("memfd_create", memfd_create("file", 0)))                                                            \
    CALL(inotify_init, say_made("inotify_init", inotify_init()))                                                                     \
    CALL(inotify_init1, say_made("inotify_init1", inotify_init1(0)))                                                                 \
    CALL(mkostemp, char name[] = "/no/such/XXXXXX"; say_made("mkostemp", mkostemp(name, O_CLOEXEC)))                                 \
    CALL(mkostemp64, char name[] = "/no/such/XXXXXX"; say_made("mkostemp64", mkostemp64(name, O_CLOEXEC)))                           \
    CALL(mkstemp, char name[] = "/no/such/XXXXXX"; say_made("mkstemp", mkstemp(name)))                                               \
    CALL(mkstemp64, char name[] = "/no/such/XXXXXX"; say_made("mkstemp64", mkstemp64(name)))                                         \
    CALL(bind, struct sockaddr_in self = address(SELF, 0); say("bind", bind(fd, generic(&self), sizeof self)))                       \
    CALL(connect, struct sockaddr_in peer = address(PEER, kind == UDP ? PEER_PORT : ECHO_PORT); say("connect", connect(fd, generic(&peer), sizeof peer)))      \
    CALL(__connect, struct sockaddr_in peer = address(PEER, kind == UDP ? PEER_PORT : ECHO_PORT); say("__connect", __connect(fd, generic(&peer), sizeof peer))) \
    CALL(shutdown, say("shutdown", shutdown(fd, SHUT_WR)))                                                                           \
    CALL(setsockopt, int on = 1; say("SO_KEEPALIVE", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on)); say("TCP_NODELAY", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))) \
    CALL(listen, say("listen", listen(fd, 8)))                                                                                       \
    CALL(getsockname, NAME; say_name("getsockname", getsockname(fd, to, &len), &name))                                               \
    CALL(getpeername, NAME; say_name("getpeername", getpeername(fd, to, &len), &name))                                               \
    CALL(getsockopt, int value = -1; socklen_t len = sizeof value; say("SO_ERROR", getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len)); printf("  %d\n", value); \
         say("SO_ACCEPTCONN", getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len)); printf("  %d\n", value))                     \
    CALL(fcntl, say("F_GETFL", fcntl(fd, F_GETFL)); say("F_SETFL", fcntl(fd, F_SETFL, O_RDWR)); say_made("F_DUPFD", fcntl(fd, F_DUPFD, 0))) \
    CALL(fcntl64, say("F_GETFL", fcntl64(fd, F_GETFL)); say("F_SETFL", fcntl64(fd, F_SETFL, O_RDWR)); say_made("F_DUPFD_CLOEXEC", fcntl64(fd, F_DUPFD_CLOEXEC, 0))) \
    CALL(__fcntl, say("F_GETFL", __fcntl(fd, F_GETFL)); say("F_SETFL", __fcntl(fd, F_SETFL, O_RDWR)); say_made("F_DUPFD", __fcntl(fd, F_DUPFD, 0))) \
    CALL(ioctl, int value = -1; say("FIONREAD", ioctl(fd, FIONREAD, &value)); printf("  %d\n", value); value = 0; say("FIONBIO", ioctl(fd, FIONBIO, &value)); \
         value = -1; say("SIOCATMARK", ioctl(fd, SIOCATMARK, &value)); printf("  %d\n", value))                                      \
    CALL(sockatmark, say("sockatmark", sockatmark(fd)))                                                                              \
    CALL(read, say_data("read", read(fd, data, 64)))                                                                                 \
    CALL(__read, say_data("__read", __read(fd, data, 64)))                                                                           \
    CALL(__read_chk, say_data("__read_chk", __read_chk(fd, data, 64, sizeof data)))                                                  \
    CALL(readv, PART; say_data("readv", readv(fd, &part, 1)))                                                                        \
    CALL(recv, say_data("recv", recv(fd, data, 64, 0)))                                                                              \
    CALL(__recv_chk, say_data("__recv_chk", __recv_chk(fd, data, 64, sizeof data, 0)))                                               \
    CALL(recvfrom, NAME; say_data("recvfrom", recvfrom(fd, data, 64, 0, to, &len)); printf("  len %d\n", len == sizeof name))        \
    CALL(__recvfrom_chk, NAME; say_data("__recvfrom_chk", __recvfrom_chk(fd, data, 64, sizeof data, 0, to, &len)); printf("  len %d\n", len == sizeof name)) \
    CALL(preadv2, PART; say_data("preadv2", preadv2(fd, &part, 1, -1, 0)))                                                           \
    CALL(preadv64v2, PART; say_data("preadv64v2", preadv64v2(fd, &part, 1, -1, 0)))                                                  \
    CALL(recvmsg, MESSAGE; say_data("recvmsg", recvmsg(fd, &message, 0)); printf("  flags %x\n", message.msg_flags))                 \
    CALL(recvmmsg, MESSAGE; struct mmsghdr many = {.msg_hdr = message}; say("recvmmsg", recvmmsg(fd, &many, 1, 0, NULL)); printf("  %u\n", many.msg_len)) \
    CALL(write, say("write", write(fd, "twelve bytes", 12)))                                                                         \
    CALL(__write, say("__write", __write(fd, "twelve bytes", 12)))                                                                   \
    CALL(writev, TO_SEND; say("writev", writev(fd, &part, 1)))                                                                       \
    CALL(pwritev2, TO_SEND; say("pwritev2", pwritev2(fd, &part, 1, -1, 0)))                                                          \
    CALL(pwritev64v2, TO_SEND; say("pwritev64v2", pwritev64v2(fd, &part, 1, -1, 0)))                                                 \
    CALL(send, say("send", send(fd, "twelve bytes", 12, 0)))                                                                         \
    CALL(__send, say("__send", __send(fd, "twelve bytes", 12, 0)))                                                                   \
    CALL(sendto, say("sendto", sendto(fd, "twelve bytes", 12, 0, NULL, 0)))                                                          \
    CALL(sendmsg, MESSAGE_TO_SEND; say("sendmsg", sendmsg(fd, &message, 0)))                                                         \
    CALL(sendmmsg, MESSAGE_TO_SEND; struct mmsghdr many = {.msg_hdr = message}; say("sendmmsg", sendmmsg(fd, &many, 1, 0)); printf("  %u\n", many.msg_len)) \
    CALL(poll, POLLED; (void)now; say_polled("poll", poll(&polled, 1, 0), &polled))                                                  \
    CALL(__poll, POLLED; (void)now; say_polled("__poll", __poll(&polled, 1, 0), &polled))                                            \
    CALL(__poll_chk, POLLED; (void)now; say_polled("__poll_chk", __poll_chk(&polled, 1, 0, sizeof polled), &polled))                 \
    CALL(ppoll, POLLED; say_polled("ppoll", ppoll(&polled, 1, &now, NULL), &polled))                                                 \
    CALL(__ppoll_chk, POLLED; say_polled("__ppoll_chk", __ppoll_chk(&polled, 1, &now, NULL, sizeof polled), &polled))                \
    CALL(select, SELECTED; (void)nanos; say_selected("select", fd, select(fd + 1, &readable, NULL, NULL, &now), &readable))          \
    CALL(__select, SELECTED; (void)nanos; say_selected("__select", fd, __select(fd + 1, &readable, NULL, NULL, &now), &readable))    \
    CALL(pselect, SELECTED; (void)now; say_selected("pselect", fd, pselect(fd + 1, &readable, NULL, NULL, &nanos, NULL), &readable)) \
    CALL(epoll_ctl, struct epoll_event event = {.events = EPOLLIN}; say("as a set", epoll_ctl(fd, EPOLL_CTL_ADD, pipes[0], &event)); \
         if (kind == SET) say("  again", epoll_ctl(fd, EPOLL_CTL_DEL, pipes[0], NULL));                                              \
         if (say("in a set", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event)) == 0) { event.events = 0; say("  waited", epoll_wait(set, &event, 1, 5000)); printf("  %x\n", event.events); }) \
    CALL(epoll_wait, struct epoll_event event; say("epoll_wait", epoll_wait(fd, &event, 1, 0)))                                      \
    CALL(epoll_pwait, struct epoll_event event; say("epoll_pwait", epoll_pwait(fd, &event, 1, 0, NULL)))                             \
    CALL(epoll_pwait2, struct epoll_event event; struct timespec now = {0, 0}; say("epoll_pwait2", epoll_pwait2(fd, &event, 1, &now, NULL))) \
    CALL(splice, say("splice from", splice(fd, NULL, pipes[1], NULL, 64, SPLICE_F_NONBLOCK));                                        \
         MUST(write(pipes[1], "twelve bytes", 12)); say("splice to", splice(pipes[0], NULL, fd, NULL, 12, 0)))                       \
    CALL(sendfile, off_t offset = 3; say("sendfile from", sendfile(pipes[1], fd, NULL, 64)); say("sendfile to", sendfile(fd, file, &offset, 12)); printf("  %ld\n", (long)offset)) \
    CALL(sendfile64, off64_t offset = 3; say("sendfile64 from", sendfile64(pipes[1], fd, NULL, 64)); say("sendfile64 to", sendfile64(fd, file, &offset, 12)); printf("  %ld\n", (long)offset)) \
    CALL(aio_read, CONTROL(data, 64); await_asynchronous("aio_read", aio_read(&control), &control))                                  \
    CALL(aio_read64, CONTROL(data, 64); await_asynchronous("aio_read64", aio_read64((struct aiocb64 *)&control), &control))          \
    CALL(aio_write, CONTROL("twelve bytes", 12); await_asynchronous("aio_write", aio_write(&control), &control))                     \
    CALL(aio_write64, CONTROL("twelve bytes", 12); await_asynchronous("aio_write64", aio_write64((struct aiocb64 *)&control), &control)) \
    CALL(lio_listio, CONTROL(data, 64); control.aio_lio_opcode = LIO_READ; struct aiocb *list[] = {&control}; say_listed("lio_listio", lio_listio(LIO_WAIT, list, 1, NULL), &control))                                                       \
    CALL(lio_listio64, CONTROL("twelve bytes", 12); control.aio_lio_opcode = LIO_WRITE; struct aiocb *list[] = {&control};           \
         say_listed("lio_listio64", lio_listio64(LIO_WAIT, (struct aiocb64 **)list, 1, NULL), &control)) \
    CALL(fdopen, say_stream("fdopen", fdopen(fd, "r+")))                                                                             \
    CALL(fclose, FILE *stream = fdopen(fd, "r+"); say("fclose", stream ? fclose(stream) : -1); is_gone = 1)                          \
    CALL(freopen, FILE *stream = fdopen(fd, "r+"); say("freopen", stream && freopen("/dev/null", "r", stream) ? 0 : -1); is_gone = 1) \
    CALL(freopen64, FILE *stream = fdopen(fd, "r+"); say("freopen64", stream && freopen64("/dev/null", "r", stream) ? 0 : -1); is_gone = 1) \
    CALL(dprintf, say("dprintf", dprintf(fd, "%s %d %.1f", "formatted", 7, 1.5)))                                                    \
    CALL(__dprintf_chk, say("__dprintf_chk", __dprintf_chk(fd, 1, "%s %d %.1f", "formatted", 7, 1.5)))                               \
    CALL(backtrace_symbols_fd, void *frames[1] = {NULL}; backtrace_symbols_fd(frames, 1, fd))                                        \
    CALL(vdprintf, say("vdprintf", print_with_list(0, fd, "%s %d %.1f", "formatted", 7, 1.5)))                                       \
    CALL(__vdprintf_chk, say("__vdprintf_chk", print_with_list(1, fd, "%s %d %.1f", "formatted", 7, 1.5)))                           \
    CALL(sigaction, ACTION; say("sigaction", sigaction(SIGUSR1, &action, NULL)); raise(SIGUSR1))                                     \
    CALL(__sigaction, ACTION; say("__sigaction", __sigaction(SIGUSR1, &action, NULL)); raise(SIGUSR1))                               \
    CALL(signal, printf("signal %d\n", signal(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                                         \
    CALL(bsd_signal, printf("bsd_signal %d\n", bsd_signal(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                             \
    CALL(ssignal, printf("ssignal %d\n", ssignal(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                                      \
    CALL(sysv_signal, printf("sysv_signal %d\n", sysv_signal(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                          \
    CALL(__sysv_signal, printf("__sysv_signal %d\n", __sysv_signal(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                    \
    CALL(sigset, printf("sigset %d\n", sigset(SIGUSR1, handler) == SIG_ERR); raise(SIGUSR1))                                         \
    CALL(siginterrupt, say("siginterrupt", siginterrupt(SIGUSR1, 1)))                                                                \
    CALL(execve, say("execve", execve("/no/such/program", no_arguments, no_arguments)))                                           \
    CALL(execv, say("execv", execv("/no/such/program", no_arguments)))                                                               \
    CALL(execvp, say("execvp", execvp("/no/such/program", no_arguments)))                                                            \
    CALL(execvpe, say("execvpe", execvpe("/no/such/program", no_arguments, no_arguments)))                                           \
    CALL(fexecve, say_opened("fexecve", fexecve(fd, no_arguments, no_arguments)))                                                           \
    CALL(execveat, say_opened("execveat", execveat(fd, "program", no_arguments, no_arguments, 0)))                                          \
    CALL(execl, say("execl", execl("/no/such/program", "program", NULL)))                                                                                     \
    CALL(execlp, say("execlp", execlp("/no/such/program", "program", NULL)))                                                                                  \
    CALL(execle, say("execle", execle("/no/such/program", "program", NULL, no_arguments)))                                                                    \
    CALL(_exit, in_child("_exit", exit_at_once))                                                                                     \
    CALL(_Exit, in_child("_Exit", exit_as_c_says))                                                                                   \
    CALL(daemon, in_child("daemon", become_a_daemon))                                                                                \
    CALL(posix_spawn_file_actions_adddup2, posix_spawn_file_actions_t actions; MUST(posix_spawn_file_actions_init(&actions));        \
         printf("adddup2 %d\n", posix_spawn_file_actions_adddup2(&actions, fd, pipes[0])); posix_spawn_file_actions_destroy(&actions)) \
    CALL(posix_spawn, say_spawned("posix_spawn", posix_spawn(&spawned, "/bin/true", NULL, NULL, true_arguments, environ)))            \
    CALL(posix_spawnp, say_spawned("posix_spawnp", posix_spawnp(&spawned, "true", NULL, NULL, true_arguments, no_arguments)))         \
    CALL(system, say("system", system("exit 3")))                                                                                    \
    CALL(popen, FILE *output = popen("exit 4", "r"); printf("popen %d, %d\n", output != NULL, output ? pclose(output) : -1))         \
    CALL(setuid, say("setuid", setuid(getuid())))                                                                                    \
    CALL(seteuid, say("seteuid", seteuid(geteuid())))                                                                                \
    CALL(setreuid, say("setreuid", setreuid(getuid(), geteuid())))                                                                   \
    CALL(setresuid, say("setresuid", setresuid(getuid(), geteuid(), geteuid())))                                                     \
    CALL(capset, say("capset", set_capabilities()))                                                                                  \
    CALL(unshare, say("unshare", unshare(0)))                                                                                        \
    CALL(setns, say("setns", setns(fd, CLONE_NEWUTS)))                                                                               \
    CALL(prctl, say("prctl", prctl(PR_GET_DUMPABLE)))                                                                                \
    CALL(pthread_setcanceltype, int old; printf("pthread_setcanceltype %d\n", pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old))) \
    CALL(pthread_testcancel, pthread_testcancel())

#define DEFINE(name, ...) static void call_##name(int fd) { (void)fd; __VA_ARGS__; }
CALLS(DEFINE)

static const struct {
    const char *name;
    void (*run)(int);
} calls[] = {
#define ENTRY(name, ...) {#name, call_##name},
    CALLS(ENTRY)};

/* A connection to the peer, for which so much waits. */
static int connected(int port, int waiting)
{
    struct sockaddr_in peer = address(PEER, port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), count = 0;
    MUST(fd);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeout(fd, 5000);
    if (waiting == 0)
        return fd;
    must(send(fd, "abcdefghijklmnopqrst", LEN, 0) == LEN, "send", __LINE__);
    for (int tries = 0; count < waiting && tries < 5000; tries++) {
        MUST(ioctl(fd, FIONREAD, &count));
        if (count < waiting)
            sleep_msec(1);
    }
    must(count == waiting, "what waits", __LINE__);
    return fd;
}

/* Has the peer connect to a listener and say a letter. */
static int is_called(int listener, char letter)
{
    char order[32], answer = 0;
    int fd = connected(CALLER_PORT, 0), len = snprintf(order, sizeof order, "%d %c\n", port_of(listener), letter);
    must(send(fd, order, (size_t)len, 0) == len, "send", __LINE__);
    must(recv(fd, &answer, 1, 0) == 1, "recv", __LINE__);
    MUST(close(fd));
    return answer == 'c';
}

static int listener(void)
{
    struct sockaddr_in self = address(SELF, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 8));
    must(is_called(fd, 'f'), "a call", __LINE__);
    await_data(fd);
    return fd;
}

static int datagrams(void)
{
    int fd = bound();
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeout(fd, 5000);
    ask(fd, 1, LEN);
    await_data(fd);
    return fd;
}

static int own_number(void)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = 1000;
    while (directory && (entry = readdir(directory))) {
        int number = atoi(entry->d_name);
        if (number >= 900 && number < 1024)
            found = number;
    }
    closedir(directory);
    return found;
}

static int descriptor(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int mark = 0, fd;
    member = -1;
    switch (kind) {
    case UDP:
        return datagrams();
    case STREAM:
        return connected(ECHO_PORT, LEN);
    case LISTENER:
        return listener();
    case FRESH:
        fd = socket(AF_INET, SOCK_STREAM, 0);
        MUST(fd);
        return fd;
    case KERNELS:
        fd = connected(ECHO_PORT, LEN);
        MUST(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark));
        return fd;
    case SET:
        member = datagrams();
        fd = epoll_create1(0);
        MUST(epoll_ctl(fd, EPOLL_CTL_ADD, member, &event));
        return fd;
    case OWN:
        return own_number();
    }
    return -1;
}

/* Sends, and receives what is left from before and the answer. */
static void say_exchanged(int fd)
{
    size_t total = 0;
    if (say("  after, send", send(fd, "after", 5, MSG_NOSIGNAL)) < 0) {
        long count;
        while ((count = recv(fd, data, sizeof data, MSG_DONTWAIT)) > 0)
            total += (size_t)count;
        say("  the rest", (long)total);
        return;
    }
    while (total < 5 || memcmp(data + total - 5, "after", 5) != 0) {
        long count = recv(fd, data + total, sizeof data - total, 0);
        if (count <= 0) {
            say("  the answer", count);
            break;
        }
        total += (size_t)count;
    }
    printf("  received %zu\n", total);
}

static void say_answered(int fd)
{
    char text[100];
    int others = -1;
    if (say("  after, send", send(fd, "after", 5, MSG_NOSIGNAL)) < 0)
        return;
    do
        others++;
    while (recv(fd, text, sizeof text, 0) > 0 && memcmp(text, "got 5", 5) != 0);
    printf("  answered after %d\n", others);
}

static void say_accepted(int fd)
{
    if (!is_called(fd, 'a')) {
        printf("  nobody listens\n");
        return;
    }
    char letter = 0;
    for (int count = 1; letter != 'a'; count++) {
        await_data(fd);
        int accepted = accept(fd, NULL, NULL);
        MUST(accepted);
        set_timeout(accepted, 5000);
        must(recv(accepted, &letter, 1, 0) == 1, "recv", __LINE__);
        MUST(close(accepted));
        printf("  accepted %d\n", count);
    }
}

static void say_of_use(int fd)
{
    struct epoll_event event;
    switch (kind) {
    case UDP:
        say_answered(fd);
        break;
    case STREAM:
    case KERNELS:
        say_exchanged(fd);
        break;
    case LISTENER:
        say_accepted(fd);
        break;
    case FRESH:
        say("  getsockopt", getsockopt(fd, SOL_SOCKET, SO_TYPE, data, &(socklen_t){4}));
        break;
    case SET:
        recv(member, data, 64, MSG_DONTWAIT);
        ask(member, 1, LEN);
        say("  epoll_wait", epoll_wait(fd, &event, 1, 5000));
        break;
    case OWN:
        say("  fcntl", fcntl(fd, F_GETFD));
        break;
    }
}

static void all(enum kind of)
{
    kind = of;
    signal(SIGPIPE, SIG_IGN);
    /* The kernel's table of descriptors has room for the numbers of the library's: select(2) looks no further. */
    MUST(dup2(STDIN_FILENO, 1023));
    MUST(close(1023));
    int works = datagrams();
    file = memfd_create("letters", 0);
    must(write(file, "the letters of a file", 21) == 21, "write", __LINE__);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        MUST(pipe(pipes));
        set = epoll_create1(0);
        MUST(set);
        memset(data, '.', sizeof data);
        is_gone = 0;
        int fd = descriptor();
        printf("== %s\n", calls[i].name);
        calls[i].run(fd);
        if (is_gone && kind != OWN)
            say("  closed", fcntl(fd, F_GETFD));
        else
            say_of_use(fd);
        if (!is_gone && kind != OWN)
            close(fd);
        if (member >= 0)
            close(member);
        close(set);
        close(pipes[0]);
        close(pipes[1]);
    }
    say_answered(works);
}

static void names(void)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        printf("%s\n", calls[i].name);
}

static void datagram(void) { all(UDP); }
static void stream(void) { all(STREAM); }
static void listening(void) { all(LISTENER); }
static void fresh(void) { all(FRESH); }
static void kernels(void) { all(KERNELS); }
static void epoll_set(void) { all(SET); }
static void own(void) { all(OWN); }

CASES({"names", names}, {"datagram", datagram}, {"stream", stream}, {"listening", listening}, {"fresh", fresh},
      {"kernels", kernels}, {"epoll_set", epoll_set}, {"own", own})
