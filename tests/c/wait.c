/* poll, select and epoll with sockets of every kind. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/select.h>

static void say_poll(const char *what, struct pollfd *fds, nfds_t count, int timeout)
{
    say(what, poll(fds, count, timeout));
    for (nfds_t i = 0; i < count; i++)
        printf("  [%lu] %x\n", (unsigned long)i, fds[i].revents);
}

/* Two connected TCP sockets on loopback. */
static void tcp_pair(int ends[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in self = address("127.0.0.1", 0);
    MUST(bind(listener, generic(&self), sizeof self));
    MUST(listen(listener, 1));
    self = address("127.0.0.1", port_of(listener));
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    MUST(connect(ends[0], generic(&self), sizeof self));
    ends[1] = accept(listener, NULL, NULL);
    MUST(ends[1]);
    close(listener);
}

static void poll_one(void)
{
    int fd = bound();
    struct pollfd polled = {fd, POLLIN, 0};
    double begun = now_sec();
    say_poll("empty", &polled, 1, 150);
    say_waited("poll", begun, 150);
    say_poll("at once", &polled, 1, 0);
    polled.events = POLLIN | POLLOUT;
    say_poll("for writing", &polled, 1, 1000);
    have(fd, 1, 10);
    say_poll("for both", &polled, 1, 1000);
    polled.events = POLLOUT;
    say_poll("for writing", &polled, 1, 1000);
    polled.events = POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND | POLLRDHUP | POLLWRNORM | POLLWRBAND;
    say_poll("for everything", &polled, 1, 1000);
    polled.events = 0;
    say_poll("for nothing", &polled, 1, 0);
    say_recv("recv", fd, 64, 0);
    polled.events = POLLIN;
    say_poll("empty", &polled, 1, 0);
    begun = now_sec();
    ask_for(fd, 1, 20, 200, 0, 0);
    say_poll("late", &polled, 1, -1);
    say_waited("poll", begun, 200);
    say_poll("still there", &polled, 1, -1);
    say_recv("recv", fd, 64, 0);
}

static void poll_mixed(void)
{
    int ours = bound(), local = bound_to("127.0.0.1", 0), pipes[2], tcp[2];
    MUST(pipe(pipes));
    tcp_pair(tcp);
    struct pollfd fds[7] = {{ours, POLLIN, 0}, {local, POLLIN, 0}, {pipes[0], POLLIN, 0}, {tcp[0], POLLIN, 0},
                            {-1, POLLIN, 0x7f}, {pipes[1], 0, 0}, {ours, POLLOUT, 0}};
    say_poll("nothing but writing", fds, 7, 1000);
    say_poll("nothing", fds, 6, 100);
    MUST(write(pipes[1], "x", 1));
    say_poll("pipe", fds, 6, 1000);
    struct sockaddr_in self = address("127.0.0.1", port_of(local));
    MUST(sendto(local, "x", 1, 0, generic(&self), sizeof self));
    MUST(write(tcp[1], "x", 1));
    sleep_msec(20);
    say_poll("kernel's", fds, 6, 1000);
    char byte[8];
    MUST(read(pipes[0], byte, 1));
    MUST(read(tcp[0], byte, 1));
    MUST(read(local, byte, 1));
    have(ours, 1, 10);
    say_poll("ours", fds, 7, 1000);
    say_recv("recv", ours, 64, 0);
    close(tcp[1]);
    close(pipes[1]);
    sleep_msec(20);
    fds[5].fd = 987;
    fds[3].events |= POLLRDHUP;
    say_poll("hang-ups and a closed one", fds, 6, 1000);
    say_poll("none at all", fds, 0, 50);
}

/* A datagram of ours that nobody takes must not hide what else is ready. */
static void poll_all_ready(void)
{
    int ours = bound(), other = bound(), pipes[2];
    MUST(pipe(pipes));
    have(ours, 1, 10);
    have(other, 1, 10);
    MUST(write(pipes[1], "x", 1));
    struct pollfd fds[3] = {{ours, POLLIN, 0}, {other, POLLIN, 0}, {pipes[0], POLLIN, 0}};
    int seen = 0;
    for (int i = 0; i < 200; i++) {
        MUST(poll(fds, 3, 1000));
        for (int k = 0; k < 3; k++)
            seen |= (fds[k].revents & POLLIN ? 1 : 0) << k;
    }
    printf("seen %x\n", seen);
}

static void say_select(const char *what, int count, fd_set *in, fd_set *out, int msec, const int *fds, int fd_count)
{
    struct timeval timeout = {msec / 1000, msec % 1000 * 1000};
    double begun = now_sec();
    long result = say(what, select(count, in, out, NULL, &timeout));
    if (result == 0)
        say_waited("select", begun, msec);
    printf("  time left: %s\n", timeout.tv_sec || timeout.tv_usec ? "some" : "none");
    for (int i = 0; i < fd_count; i++)
        printf("  [%d] in %d out %d\n", i, in ? !!FD_ISSET(fds[i], in) : -1, out ? !!FD_ISSET(fds[i], out) : -1);
}

/* As many as there may be, in sets that are shorter: the kernel looks at what its table of descriptors has room for. */
static void selecting_all(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    struct {
        fd_set set;
        char canary[200];
    } all;
    int fd = bound();
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        MUST(getrlimit(RLIMIT_NOFILE, &limit));
    memset(&all, 0, sizeof all);
    FD_SET(fd, &all.set);
    ask_for(fd, 1, 20, 100, 0, 0);
    say("select", select((int)limit.rlim_cur, &all.set, NULL, NULL, NULL));
    printf("set %d\n", FD_ISSET(fd, &all.set) != 0);
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    struct timeval soon = {0, 100000};
    say("select, empty", select((int)limit.rlim_cur, &all.set, NULL, NULL, &soon));
    printf("set %d\n", FD_ISSET(fd, &all.set) != 0);
    say("select of none", select(0, NULL, NULL, NULL, &soon));
    say("select of a negative number", select(-1, &all.set, NULL, NULL, &soon));
}

/* A program that gives up the right to have descriptors. It has those that are open. */
static void no_descriptors(void)
{
    int fd = bound(), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, events[2];
    struct rlimit none = {0, 0};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    MUST(setrlimit(RLIMIT_NOFILE, &none));
    for (int i = 0; i < 3; i++) {
        struct rusage before, after;
        getrusage(RUSAGE_THREAD, &before);
        ask_for(fd, 1, 20, 150, 0, 0);
        say_recv("recv", fd, 64, 0);
        ask_for(fd, 1, 21, 150, 0, 0);
        say("epoll_wait", epoll_wait(set, events, 2, -1));
        say_recv("recv", fd, 64, 0);
        ask_for(fd, 1, 22, 150, 0, 0);
        fd_set in;
        FD_ZERO(&in);
        FD_SET(fd, &in);
        say("select", select(fd + 1, &in, NULL, NULL, NULL));
        printf("  %d\n", FD_ISSET(fd, &in) != 0);
        say_recv("recv", fd, 64, 0);
        set_timeout(fd, 100);
        double begun = now_sec();
        say_recv("nothing", fd, 64, 0);
        say_waited("recv", begun, 100);
        set_timeout(fd, 0);
        getrusage(RUSAGE_THREAD, &after);
        if (i == 2 && after.ru_nvcsw - before.ru_nvcsw > 200)
            printf("woke up %ld times\n", after.ru_nvcsw - before.ru_nvcsw);
    }
    struct pollfd polled = {fd, POLLIN, 0};
    say("poll", poll(&polled, 1, 50));
    say("poll of none", poll(NULL, 0, 50));
}

static void selecting(void)
{
    int ours = bound(), local = bound_to("127.0.0.1", 0), pipes[2];
    MUST(pipe(pipes));
    int fds[3] = {ours, local, pipes[0]};
    fd_set in, out, all;
    FD_ZERO(&all);
    for (int i = 0; i < 3; i++)
        FD_SET(fds[i], &all);
    in = all;
    say_select("nothing", pipes[0] + 1, &in, NULL, 150, fds, 3);
    in = all;
    FD_ZERO(&out);
    FD_SET(ours, &out);
    say_select("writing", pipes[0] + 1, &in, &out, 1000, fds, 3);
    MUST(write(pipes[1], "x", 1));
    in = all;
    say_select("pipe", pipes[0] + 1, &in, NULL, 1000, fds, 3);
    char byte;
    MUST(read(pipes[0], &byte, 1));
    have(ours, 1, 10);
    in = all;
    FD_ZERO(&out);
    FD_SET(ours, &out);
    say_select("ours", pipes[0] + 1, &in, &out, 1000, fds, 3);
    in = all;
    say_select("beyond the count", ours, &in, NULL, 50, fds, 3);
    in = all;
    struct timespec nsec = {0, 100000000};
    say("pselect", pselect(pipes[0] + 1, &in, NULL, NULL, &nsec, NULL));
    say_recv("recv", ours, 64, 0);
    in = all;
    struct timeval timeout = {0, 1000};
    close(pipes[1]);
    FD_SET(pipes[1], &in);
    say("with a closed one", select(pipes[1] + 1, &in, NULL, NULL, &timeout));
    timeout.tv_usec = 0;
    timeout.tv_sec = -1;
    in = all;
    say("negative time", select(pipes[0] + 1, &in, NULL, NULL, &timeout));
    in = all;
    say("negative count", select(-1, &in, NULL, NULL, NULL));
    in = all;
    ask_for(ours, 1, 20, 200, 0, 0);
    say("without end", select(pipes[0] + 1, &in, NULL, NULL, NULL));
    printf("ours %d\n", !!FD_ISSET(ours, &in));
}

static void ppolling(void)
{
    int fd = bound();
    struct pollfd polled = {fd, POLLIN, 0};
    struct timespec timeout = {0, 120000000}, odd = {0, 2000000000}, negative = {-1, 0};
    double begun = now_sec();
    say("empty", ppoll(&polled, 1, &timeout, NULL));
    say_waited("ppoll", begun, 120);
    printf("timeout still %ld.%09ld\n", (long)timeout.tv_sec, timeout.tv_nsec);
    say("odd time", ppoll(&polled, 1, &odd, NULL));
    say("negative time", ppoll(&polled, 1, &negative, NULL));
    ask_for(fd, 1, 20, 150, 0, 0);
    sigset_t mask;
    sigemptyset(&mask);
    say("with a mask", ppoll(&polled, 1, NULL, &mask));
    printf("%x\n", polled.revents);
}

CASES({"poll_one", poll_one}, {"poll_mixed", poll_mixed}, {"poll_all_ready", poll_all_ready}, {"selecting", selecting}, {"selecting_all", selecting_all},
      {"ppolling", ppolling}, {"no_descriptors", no_descriptors})
