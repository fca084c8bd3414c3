/* A sender without pauses, to port 7410: what becomes of the sockets beside that one. */
#include "case.h"
#include <sys/epoll.h>
#include <sys/select.h>

#define FLOODED 7410

static void on_alarm(int signal)
{
    (void)signal;
}

static void alarm_after(int msec)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {{0, 0}, {msec / 1000, msec % 1000 * 1000}};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

/* The flooded socket, with the flood on its way. */
static int flooded_socket(void)
{
    int fd = bound_to(SELF, FLOODED);
    await_data(fd);
    return fd;
}

static int epoll_of(int fd)
{
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    return set;
}

static void timeouts(void)
{
    int flooded = flooded_socket(), quiet = bound(), set = epoll_of(quiet);
    const int msec[] = {0, 1, 100};
    for (size_t i = 0; i < sizeof msec / sizeof *msec; i++) {
        struct epoll_event event;
        struct pollfd polled = {quiet, POLLIN, 0};
        struct timeval timeout = {0, msec[i] * 1000};
        fd_set readable;
        double begun = now_sec();
        say("epoll_wait", epoll_wait(set, &event, 1, msec[i]));
        say_waited("epoll_wait", begun, msec[i]);
        begun = now_sec();
        say("poll", poll(&polled, 1, msec[i]));
        say_waited("poll", begun, msec[i]);
        FD_ZERO(&readable);
        FD_SET(quiet, &readable);
        begun = now_sec();
        say("select", select(quiet + 1, &readable, NULL, NULL, &timeout));
        say_waited("select", begun, msec[i]);
        set_timeout(quiet, msec[i]);
        begun = now_sec();
        say_recv("recv", quiet, 8, msec[i] == 0 ? MSG_DONTWAIT : 0);
        say_waited("recv", begun, msec[i]);
    }
    close(flooded);
}

static void signals(void)
{
    int flooded = flooded_socket(), quiet = bound(), set = epoll_of(quiet);
    struct epoll_event event;
    struct pollfd polled = {quiet, POLLIN, 0};
    double begun = now_sec();
    alarm_after(100);
    say("epoll_wait", epoll_wait(set, &event, 1, -1));
    alarm_after(100);
    say("poll", poll(&polled, 1, -1));
    alarm_after(100);
    say_recv("recv", quiet, 8, 0);
    say_waited("all", begun, 300);
    close(flooded);
}

static void closes(void)
{
    int quiet = bound();
    double begun = now_sec();
    for (int i = 0; i < 20; i++)
        close(flooded_socket());
    say_waited("to close", begun, 0);
    int flooded = flooded_socket();
    say_recv("recv", flooded, 8, 0);
    begun = now_sec();
    struct sockaddr_in peer = address(PEER, 1);
    say("connect", connect(flooded, generic(&peer), sizeof peer));
    say_waited("to connect", begun, 0);
    close(quiet);
}

CASES({"timeouts", timeouts}, {"signals", signals}, {"closes", closes})
