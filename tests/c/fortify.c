/* Calls as `_FORTIFY_SOURCE` makes them: the C library checks the buffer's size, which the compiler knows. */
#include "case.h"

static volatile size_t room = 40, too_much = 65;
static volatile nfds_t one = 1, too_many = 3;

/* Ends in another process, with the C library's words on standard error. */
static void overflows(const char *what, void (*run)(int), int fd)
{
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        run(fd);
        _exit(0);
    }
    int status = 0;
    MUST(waitpid(child, &status, 0));
    printf("%s: signal %d\n", what, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void read_too_much(int fd)
{
    char buffer[64];
    say("read", read(fd, buffer, too_much));
}

static void recv_too_much(int fd)
{
    char buffer[64];
    say("recv", recv(fd, buffer, too_much, MSG_DONTWAIT));
}

static void recvfrom_too_much(int fd)
{
    char buffer[64];
    say("recvfrom", recvfrom(fd, buffer, too_much, MSG_DONTWAIT, NULL, NULL));
}

static void poll_too_many(int fd)
{
    struct pollfd polled[2] = {{fd, POLLIN, 0}, {fd, POLLIN, 0}};
    say("poll", poll(polled, too_many, 0));
}

static void ppoll_too_many(int fd)
{
    struct pollfd polled[2] = {{fd, POLLIN, 0}, {fd, POLLIN, 0}};
    struct timespec now = {0, 0};
    say("ppoll", ppoll(polled, too_many, &now, NULL));
}

static void checked(void)
{
    int fd = bound(), file = open("/proc/self/comm", O_RDONLY);
    char buffer[64];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    struct pollfd polled[2] = {{fd, POLLIN, 0}, {file, POLLIN, 0}};
    struct timespec soon = {2, 0};
    set_timeout(fd, 2000);
    ask(fd, 1, 20);
    say("poll", poll(polled, one, 2000));
    say("read", read(fd, buffer, room));
    ask(fd, 1, 50);
    say("ppoll", ppoll(polled, one, &soon, NULL));
    say("recv", recv(fd, buffer, room, 0));
    ask(fd, 1, 30);
    say("recvfrom", recvfrom(fd, buffer, room, 0, (struct sockaddr *)&from, &len));
    say_address("from", &from, len);
    say("read of a file", read(file, buffer, room));
    say("recv of a file", recv(file, buffer, room, 0));
    say("recvfrom of a file", recvfrom(file, buffer, room, 0, NULL, NULL));
    MUST(close(file));
    say("read of a closed one", read(file, buffer, room));
}

static void overflowing(void)
{
    int fd = bound();
    set_timeout(fd, 2000);
    ask(fd, 1, 20);
    say_recv("recv", fd, 64, 0);
    ask(fd, 1, 20);
    await_data(fd);
    overflows("read", read_too_much, fd);
    overflows("recv", recv_too_much, fd);
    overflows("recvfrom", recvfrom_too_much, fd);
    overflows("poll", poll_too_many, fd);
    overflows("ppoll", ppoll_too_many, fd);
    say_recv("still there", fd, 64, MSG_DONTWAIT);
}

CASES({"checked", checked}, {"overflowing", overflowing})
