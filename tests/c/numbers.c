/* Numbers of descriptors that stood for another thing before: closed past the C library's close(2), given out again by a call of
 * any kind. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

static int works(int fd, int len)
{
    set_timeout(fd, 2000);
    ask(fd, 1, len);
    return (int)say_recv("  recv", fd, 64, 0);
}

/* Closes by an instruction of its own, which no hook sees. */
static void close_unseen(int fd)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"((long)SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
#else
    syscall(SYS_close, fd);
#endif
}

/* The number of a socket that has datagrams and is closed past the hooks. */
static int left_behind(void)
{
    int fd = bound();
    ask(fd, 2, 20);
    await_data(fd);
    close_unseen(fd);
    return fd;
}

/* Whatever `fd` is, it is not the socket that had its number. */
static void say_it_is_fresh(const char *what, int expected, int fd)
{
    char byte[64];
    struct pollfd polled = {fd, POLLIN, 0};
    if (fd != expected)
        printf("%s: %d is not %d\n", what, fd, expected);
    int ready = poll(&polled, 1, 0);
    printf("%s: poll %d events %x\n", what, ready, (unsigned)polled.revents);
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    say(what, read(fd, byte, 1));
    say(what, recv(fd, byte, sizeof byte, MSG_DONTWAIT));
    MUST(close(fd));
}

static void created(void)
{
    char template[] = "/tmp/numbers-XXXXXX";
    int number, fds[2];
    sigset_t none;
    sigemptyset(&none);
#define FRESH(expression) number = left_behind(), say_it_is_fresh(#expression, number, expression)
    FRESH(open("/dev/null", O_RDWR));
    FRESH(openat(AT_FDCWD, "/dev/null", O_RDWR));
    FRESH(creat("/dev/null", 0600));
    FRESH(eventfd(0, 0));
    FRESH(timerfd_create(CLOCK_MONOTONIC, 0));
    FRESH(signalfd(-1, &none, 0));
    FRESH(memfd_create("memory", 0));
    FRESH(inotify_init());
    FRESH(inotify_init1(0));
    FRESH(mkstemp(template));
    unlink(template);
    FRESH(epoll_create(1));
    FRESH(epoll_create1(0));
    FRESH(socket(AF_UNIX, SOCK_DGRAM, 0));
    FRESH(socket(AF_INET, SOCK_DGRAM, 0));
    FRESH(dup(0));
    FRESH(fcntl(0, F_DUPFD, 0));
    number = left_behind();
    MUST(pipe(fds));
    say_it_is_fresh("pipe", number, fds[0]);
    MUST(close(fds[1]));
    number = left_behind();
    MUST(pipe2(fds, O_CLOEXEC));
    say_it_is_fresh("pipe2", number, fds[0]);
    MUST(close(fds[1]));
    number = left_behind();
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
    say_it_is_fresh("socketpair", number, fds[0]);
    MUST(close(fds[1]));
    works(bound(), 10);
}

static int unix_listener(struct sockaddr_un *self)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    socklen_t len = sizeof *self;
    self->sun_family = AF_UNIX;
    MUST(fd);
    /* An abstract name of the kernel's choice. */
    MUST(bind(fd, (struct sockaddr *)self, sizeof(sa_family_t)));
    MUST(listen(fd, 5));
    MUST(getsockname(fd, (struct sockaddr *)self, &len));
    return fd;
}

static void accepted(void)
{
    struct sockaddr_un self = {0};
    int listener = unix_listener(&self), clients[2];
    socklen_t len = sizeof(sa_family_t) + 6;
    for (int i = 0; i < 2; i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        MUST(connect(clients[i], (struct sockaddr *)&self, len));
    }
    int number = left_behind();
    say_it_is_fresh("accept", number, accept(listener, NULL, NULL));
    number = left_behind();
    say_it_is_fresh("accept4", number, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    works(bound(), 10);
}

static void send_descriptor(int to, int fd)
{
    char data = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    MUST(sendmsg(to, &message, 0));
}

/* A received descriptor has the number of a socket that was closed past every hook. */
static void received(void)
{
    int pair[2], fds[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    for (int many = 0; many < 2; many++) {
        char data[4], control[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec part = {data, sizeof data};
        struct mmsghdr messages = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                                               .msg_controllen = sizeof control}};
        MUST(pipe(fds));
        send_descriptor(pair[0], fds[0]);
        int number = left_behind(), copy = -1;
        if (many)
            say("recvmmsg", recvmmsg(pair[1], &messages, 1, 0, NULL));
        else
            say("recvmsg", recvmsg(pair[1], &messages.msg_hdr, 0));
        memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&messages.msg_hdr)), sizeof copy);
        say_it_is_fresh("received", number, copy);
        MUST(close(fds[0]));
        MUST(close(fds[1]));
    }
    works(bound(), 10);
}

/* fclose(3) and freopen(3) close a socket that was made a stream; so does the number's next owner find it. */
static void streams(void)
{
    int fd = bound();
    works(fd, 10);
    FILE *stream = fdopen(fd, "r");
    ask(fd, 1, 20);
    await_data(fd);
    MUST(fclose(stream));
    stream = fopen("/proc/self/comm", "r");
    char line[64] = "";
    printf("same number %d\n", fileno(stream) == fd);
    say("read", read(fd, line, sizeof line));
    printf("  %s", line);
    MUST(fclose(stream));
    fd = bound();
    stream = fdopen(fd, "r");
    stream = freopen("/proc/self/comm", "r", stream);
    printf("same number %d\n", fileno(stream) == fd);
    memset(line, 0, sizeof line);
    say("read", read(fd, line, sizeof line));
    printf("  %s", line);
    MUST(fclose(stream));
    works(bound(), 11);
}

/* Closed and opened again past every hook: the library finds out by itself. */
static void unseen(void)
{
    int other = bound();
    works(other, 10);
    int fd = left_behind();
    FILE *stream = fopen("/proc/self/comm", "r");
    char line[64] = "";
    sleep_msec(1200);
    printf("same number %d\n", fileno(stream) == fd);
    say("read", read(fd, line, sizeof line));
    printf("  %s", line);
    MUST(fclose(stream));
    works(bound(), 11);
}

/* dup2(2) that fails leaves the second descriptor as it is, what waits in it included. */
static void failed_copies(void)
{
    int fd = bound();
    have(fd, 3, 20);
    say("dup2 of a closed one", dup2(900, fd));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("dup3 of a closed one", dup3(900, fd, O_CLOEXEC));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("dup3 with odd flags", dup3(0, fd, O_APPEND));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("dup2 beyond the limit", dup2(fd, 1 << 28));
    say("dup2 to a negative number", dup2(fd, -1));
    say("fcntl beyond the limit", fcntl(fd, F_DUPFD, 1 << 28));
    works(fd, 10);
    have(fd, 2, 20);
    say("close_range with odd flags", close_range(3, ~0U, 1 << 9));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("close_range the wrong way round", close_range(~0U, 3, 0));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    say("close_range unshared", close_range(400, 500, CLOSE_RANGE_UNSHARE));
    works(fd, 11);
}

CASES({"created", created}, {"accepted", accepted}, {"received", received}, {"streams", streams}, {"unseen", unseen},
      {"failed_copies", failed_copies})
