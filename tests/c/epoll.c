/* epoll with sockets of every kind. */
#include "case.h"
#include <sys/epoll.h>

static int epoll(void)
{
    int set = epoll_create1(0);
    MUST(set);
    return set;
}

static void add(int set, int fd, uint32_t events, uint32_t mark)
{
    struct epoll_event event = {.events = events, .data.u32 = mark};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void change(int set, int fd, uint32_t events, uint32_t mark)
{
    struct epoll_event event = {.events = events, .data.u32 = mark};
    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
}

/* Says the events, those of the lowest mark first. */
static int say_wait(const char *what, int set, int max, int msec)
{
    struct epoll_event events[16];
    int count = (int)say(what, epoll_wait(set, events, max, msec));
    for (uint32_t mark = 0; mark < 100; mark++)
        for (int i = 0; i < count; i++)
            if (events[i].data.u32 == mark)
                printf("  [%u] %x\n", mark, events[i].events);
    return count;
}

static void level(void)
{
    int fd = bound(), set = epoll();
    add(set, fd, EPOLLIN, 1);
    double begun = now_sec();
    say_wait("empty", set, 16, 150);
    say_waited("epoll_wait", begun, 150);
    say_wait("at once", set, 16, 0);
    have(fd, 2, 10);
    say_wait("two", set, 16, 1000);
    say_wait("still two", set, 16, 1000);
    say_recv("recv", fd, 64, 0);
    say_wait("one", set, 16, 1000);
    say_recv("recv", fd, 64, 0);
    say_wait("empty", set, 16, 0);
    begun = now_sec();
    ask_for(fd, 1, 10, 200, 0, 0);
    say_wait("late", set, 16, -1);
    say_waited("epoll_wait", begun, 200);
    say_recv("recv", fd, 64, 0);
    say_wait("empty", set, 16, 100);
}

static void edge(void)
{
    int fd = bound(), set = epoll();
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    add(set, fd, EPOLLIN | EPOLLET, 1);
    have(fd, 2, 10);
    say_wait("two", set, 16, 1000);
    say_wait("the same two", set, 16, 100);
    say_recv("recv", fd, 64, 0);
    say_wait("one is left", set, 16, 100);
    have(fd, 1, 11);
    say_wait("one more", set, 16, 1000);
    while (say_recv("recv", fd, 64, 0) >= 0) {
    }
    say_wait("empty", set, 16, 100);
    have(fd, 1, 12);
    change(set, fd, EPOLLIN | EPOLLET, 2);
    say_wait("after a change", set, 16, 1000);
    say_wait("after that", set, 16, 100);
    change(set, fd, EPOLLIN | EPOLLET, 3);
    say_wait("after another change", set, 16, 1000);
    say_recv("recv", fd, 64, 0);
    have(fd, 1, 13);
    say_wait("new data", set, 16, 1000);
}

static void one_shot(void)
{
    int fd = bound(), set = epoll();
    add(set, fd, EPOLLIN | EPOLLONESHOT, 1);
    have(fd, 1, 10);
    say_wait("first", set, 16, 1000);
    say_wait("second", set, 16, 100);
    have(fd, 1, 11);
    say_wait("after more data", set, 16, 100);
    change(set, fd, EPOLLIN | EPOLLONESHOT, 2);
    say_wait("armed again", set, 16, 1000);
    say_wait("then", set, 16, 100);
    say_recv("recv", fd, 64, 0);
    say_recv("recv", fd, 64, 0);
    change(set, fd, EPOLLIN | EPOLLONESHOT, 3);
    say_wait("empty", set, 16, 100);
    have(fd, 1, 12);
    say_wait("new data", set, 16, 1000);
}

static void writing(void)
{
    int fd = bound(), set = epoll(), edge_set = epoll();
    add(set, fd, EPOLLOUT, 1);
    add(edge_set, fd, EPOLLOUT | EPOLLIN | EPOLLET, 2);
    say_wait("writable", set, 16, 1000);
    say_wait("writable still", set, 16, 1000);
    say_wait("edge", edge_set, 16, 1000);
    say_wait("no edge", edge_set, 16, 100);
    have(fd, 1, 10);
    say_wait("edge with data", edge_set, 16, 1000);
    say_wait("no edge", edge_set, 16, 100);
    change(set, fd, EPOLLOUT | EPOLLIN, 3);
    say_wait("both", set, 16, 1000);
    change(set, fd, EPOLLIN | EPOLLRDNORM | EPOLLWRNORM | EPOLLRDHUP | EPOLLPRI, 4);
    say_wait("everything", set, 16, 1000);
    change(set, fd, 0, 5);
    say_wait("nothing", set, 16, 100);
}

static void two_sets(void)
{
    int fd = bound(), first = epoll(), second = epoll();
    add(first, fd, EPOLLIN, 1);
    add(second, fd, EPOLLIN | EPOLLET, 2);
    have(fd, 1, 10);
    say_wait("first", first, 16, 1000);
    say_wait("second", second, 16, 1000);
    say_wait("first", first, 16, 1000);
    say_wait("second", second, 16, 100);
    close(first);
    have(fd, 1, 10);
    say_wait("second", second, 16, 1000);
    close(second);
    say_recv("recv", fd, 64, 0);
}

static void nested(void)
{
    int fd = bound(), inner = epoll(), outer = epoll();
    add(inner, fd, EPOLLIN, 1);
    add(outer, inner, EPOLLIN, 2);
    say_wait("empty", outer, 16, 100);
    have(fd, 1, 10);
    say_wait("outer", outer, 16, 1000);
    say_wait("inner", inner, 16, 1000);
    struct pollfd polled = {inner, POLLIN, 0};
    say("poll of a set", poll(&polled, 1, 1000));
    say_recv("recv", fd, 64, 0);
    say_wait("outer", outer, 16, 100);
}

static void nested_with_data(void)
{
    int fd = bound(), inner = epoll(), outer = epoll();
    add(inner, fd, EPOLLIN, 1);
    /* What came before the set went into another one. */
    have(fd, 1, 10);
    add(outer, inner, EPOLLIN, 2);
    say_wait("outer", outer, 16, 1000);
    say_wait("inner", inner, 16, 1000);
    say_recv("recv", fd, 64, 0);
    have(fd, 1, 11);
    say_wait("outer", outer, 16, 1000);
    say_recv("recv", fd, 64, 0);
}

static void polled_set(void)
{
    int fd = bound(), set = epoll();
    add(set, fd, EPOLLIN, 1);
    struct pollfd polled = {set, POLLIN, 0};
    say("empty", poll(&polled, 1, 100));
    ask_for(fd, 1, 10, 100, 0, 0);
    say("poll of a set", poll(&polled, 1, 2000));
    say_wait("the set", set, 16, 1000);
    say_recv("recv", fd, 64, 0);
}

static void errors(void)
{
    int fd = bound(), set = epoll();
    struct epoll_event event = {.events = EPOLLIN};
    add(set, fd, EPOLLIN, 1);
    say("again", epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    say("itself", epoll_ctl(set, EPOLL_CTL_ADD, set, &event));
    say("closed", epoll_ctl(set, EPOLL_CTL_ADD, 900, &event));
    say("not a set", epoll_ctl(fd, EPOLL_CTL_ADD, set, &event));
    say("delete", epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    say("delete again", epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    say("change", epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    have(fd, 1, 10);
    say_wait("deleted", set, 16, 100);
    add(set, fd, EPOLLIN, 2);
    say_wait("added with data", set, 16, 1000);
    struct epoll_event events[4];
    say("no room", epoll_wait(set, events, 0, 100));
    volatile int negative = -1;
    say("negative room", epoll_wait(set, events, negative, 100));
    say("wait on a socket", epoll_wait(fd, events, 4, 100));
    say("wait on nothing", epoll_wait(900, events, 4, 100));
    say("odd operation", epoll_ctl(set, 77, fd, &event));
    int file = open("/proc/self/exe", O_RDONLY);
    say("a file", epoll_ctl(set, EPOLL_CTL_ADD, file, &event));
}

static void closing(void)
{
    int fd = bound(), set = epoll(), copy;
    add(set, fd, EPOLLIN, 1);
    have(fd, 1, 10);
    copy = dup(fd);
    MUST(copy);
    close(fd);
    /* The socket stays in the set as long as a copy of its descriptor is open. */
    say_wait("closed one of two", set, 16, 1000);
    say_recv("recv", copy, 64, 0);
    have(copy, 1, 11);
    say_wait("data", set, 16, 1000);
    close(copy);
    say_wait("closed both", set, 16, 100);
    fd = bound();
    add(set, fd, EPOLLIN, 2);
    have(fd, 1, 12);
    say_wait("a new one", set, 16, 1000);
    int second = bound();
    MUST(dup2(second, fd));
    say_wait("replaced", set, 16, 100);
}

/* The set is used through a copy of its descriptor. */
static void copied_set(void)
{
    int fd = bound(), set = epoll(), other = bound();
    int copy = dup(set);
    MUST(copy);
    add(copy, fd, EPOLLIN, 1);
    have(fd, 1, 10);
    say_wait("through the first", set, 16, 1000);
    say_wait("through the copy", copy, 16, 1000);
    int late = dup(set);
    MUST(late);
    close(set);
    add(late, other, EPOLLIN, 2);
    have(other, 1, 10);
    say_wait("both", copy, 16, 1000);
    say_wait("both", late, 16, 1000);
}

/* A socket that is always ready must not hide the others. */
static void fairness(void)
{
    int ours = bound(), other = bound(), set = epoll(), pipes[2];
    MUST(pipe(pipes));
    add(set, ours, EPOLLIN, 1);
    add(set, other, EPOLLIN, 2);
    add(set, pipes[0], EPOLLIN, 3);
    have(ours, 1, 10);
    have(other, 1, 10);
    MUST(write(pipes[1], "x", 1));
    for (int max = 1; max <= 3; max++) {
        int seen = 0;
        struct epoll_event events[3];
        for (int i = 0; i < 200; i++) {
            int count = epoll_wait(set, events, max, 1000);
            for (int k = 0; k < count; k++)
                seen |= 1 << events[k].data.u32;
        }
        printf("%d at once: seen %x\n", max, seen);
    }
}

static void mixed(void)
{
    int ours = bound(), local = bound_to("127.0.0.1", 0), set = epoll(), pipes[2];
    MUST(pipe(pipes));
    add(set, ours, EPOLLIN, 1);
    add(set, local, EPOLLIN, 2);
    add(set, pipes[0], EPOLLIN | EPOLLET, 3);
    say_wait("nothing", set, 16, 100);
    MUST(write(pipes[1], "x", 1));
    say_wait("pipe", set, 16, 1000);
    say_wait("no edge", set, 16, 100);
    struct sockaddr_in self = address("127.0.0.1", port_of(local));
    MUST(sendto(local, "x", 1, 0, generic(&self), sizeof self));
    say_wait("loopback", set, 16, 1000);
    say_recv("recv", local, 64, 0);
    have(ours, 1, 3000);
    say_wait("a fragmented one", set, 16, 1000);
    say_recv("recv", ours, 5000, 0);
    say_wait("nothing", set, 16, 100);
    have(ours, 1, 30);
    say_wait("ours", set, 16, 1000);
    say_recv("recv", ours, 64, 0);
    /* The same data for two descriptors is the program's affair. */
    add(set, bound(), EPOLLOUT, 1);
    have(ours, 1, 30);
    struct epoll_event events[8];
    sleep_msec(50);
    int count = epoll_wait(set, events, 8, 1000);
    uint32_t all = 0;
    for (int i = 0; i < count; i++)
        all |= events[i].events;
    printf("at least one: %d, events %x\n", count > 0, all & EPOLLIN);
}

/* What the kernel's socket receives is read without a wait that tells of it, at most two ticks of the kernel later. */
static void read_without_wait(void)
{
    int fd = bound_to("0.0.0.0", 0), sender = bound_to("127.0.0.1", 0), set = epoll(), seen = 0;
    struct sockaddr_in self = address("127.0.0.1", port_of(fd));
    struct epoll_event event;
    char buffer[64];
    MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
    add(set, fd, EPOLLIN, 1);
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 150; i++)
            seen += recv(fd, buffer, sizeof buffer, 0) >= 0;
        if (round % 2)
            seen += epoll_wait(set, &event, 1, 0);
        MUST(sendto(sender, "x", 1, 0, generic(&self), sizeof self));
        sleep_msec(25);
        say("recv", recv(fd, buffer, sizeof buffer, 0));
    }
    say("seen before", seen);
    ask_for(fd, 1, 20, 0, 0, 0);
    say_wait("past the kernel", set, 16, 5000);
    say_recv("recv", fd, 64, 0);
}

CASES({"level", level}, {"edge", edge}, {"one_shot", one_shot}, {"writing", writing}, {"two_sets", two_sets},
      {"nested", nested}, {"nested_with_data", nested_with_data}, {"polled_set", polled_set}, {"errors", errors},
      {"closing", closing}, {"copied_set", copied_set}, {"fairness", fairness}, {"mixed", mixed}, {"read_without_wait", read_without_wait})
