/* Calls on streams and listeners that wait, and what ends them. The peer at PORT sends back what comes; that at PEER_PORT connects when it is
   asked to, says 'c' first, and sends back what comes. */
#include "case.h"
#include <netinet/tcp.h>

#define PORT 7103

static int asker = -1;

static int listening(void)
{
    struct sockaddr_in self = address(SELF, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 16));
    return fd;
}

/* Has the peer connect, and waits until it has. */
static void have_connection(int listener)
{
    char script[40];
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    int len = snprintf(script, sizeof script, "C %d 0", port_of(listener));
    if (asker < 0)
        asker = bound();
    must(sendto(asker, script, (size_t)len, 0, generic(&peer), sizeof peer) == len, "asking", __LINE__);
    await_data(listener);
}

static void set_timeouts(int fd, int msec)
{
    struct timeval timeout = {msec / 1000, msec % 1000 * 1000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
}

static int accepted(int listener)
{
    char first;
    have_connection(listener);
    int fd = accept(listener, NULL, NULL);
    MUST(fd);
    set_timeouts(fd, 20000);
    must(read(fd, &first, 1) == 1 && first == 'c', "the first octet", __LINE__);
    return fd;
}

static int connected(void)
{
    struct sockaddr_in peer = address(PEER, PORT);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(connect(fd, generic(&peer), sizeof peer));
    set_timeouts(fd, 20000);
    return fd;
}

/* Has octets come. */
static void have_octets(int fd, const char *octets)
{
    int before, now = 0;
    size_t len = strlen(octets);
    MUST(ioctl(fd, FIONREAD, &before));
    must(send(fd, octets, len, 0) == (ssize_t)len, "send", __LINE__);
    for (int i = 0; i < 2000 && now < before + (int)len; i++) {
        sleep_msec(1);
        MUST(ioctl(fd, FIONREAD, &now));
    }
}

struct later {
    int fd, msec;
    const char *octets;
};

static void *sends_later(void *argument)
{
    struct later *later = argument;
    sleep_msec(later->msec);
    MUST(send(later->fd, later->octets, strlen(later->octets), 0));
    return NULL;
}

static void *shuts_later(void *argument)
{
    struct later *later = argument;
    sleep_msec(later->msec);
    MUST(shutdown(later->fd, SHUT_WR));
    return NULL;
}

static pthread_t begun(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create", __LINE__);
    return thread;
}

static void ended(pthread_t thread)
{
    must(pthread_join(thread, NULL) == 0, "pthread_join", __LINE__);
}

static void handled(int number) { (void)number; }

/* A signal comes, whose handler ends calls. */
static void have_signal(int msec)
{
    struct sigaction action = {.sa_handler = handled};
    struct itimerval timer = {.it_value = {msec / 1000, msec % 1000 * 1000}};
    MUST(sigaction(SIGALRM, &action, NULL));
    MUST(setitimer(ITIMER_REAL, &timer, NULL));
}

static void say_timed(const char *what, int fd, size_t room, int flags, int msec)
{
    double begun = now_sec();
    say_recv(what, fd, room, flags);
    say_waited(what, begun, msec);
}

static void peek_with(int fd)
{
    const int all = MSG_PEEK | MSG_WAITALL;
    have_octets(fd, "abc");
    set_timeout(fd, 150);
    say_timed("peeks until the time is over", fd, 8, all, 150);
    say_timed("does not wait", fd, 8, all | MSG_DONTWAIT, 0);
    say_timed("cuts", fd, 8, all | MSG_TRUNC, 150);
    say_timed("enough", fd, 3, all, 0);
    set_timeout(fd, 0);
    have_signal(150);
    say_timed("peeks until a signal", fd, 8, all, 150);
    struct later later = {fd, 100, "defgh"};
    pthread_t thread = begun(sends_later, &later);
    say_timed("peeks until all is there", fd, 8, all, 100);
    ended(thread);
    later = (struct later){fd, 100, NULL};
    thread = begun(shuts_later, &later);
    say_timed("peeks until the end", fd, 20, all, 100);
    ended(thread);
    say_recv("takes", fd, 20, 0);
    say_timed("after the end", fd, 20, all, 0);
    MUST(close(fd));
}

static void peek_all(void)
{
    peek_with(connected());
    int listener = listening();
    peek_with(accepted(listener));
    MUST(close(listener));
}

static void say_ready(const char *what, int fd)
{
    struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    MUST(poll(&polled, 1, 0));
    printf("%s: ready for %#x\n", what, (unsigned)polled.revents);
}

static void low_water_with(int fd)
{
    int least = 10;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least));
    set_timeout(fd, 150);
    have_octets(fd, "12345");
    say_ready("too little", fd);
    say_timed("peeks without waiting", fd, 20, MSG_PEEK | MSG_DONTWAIT, 0);
    say_timed("peeks", fd, 20, MSG_PEEK, 150);
    say_timed("asks for little", fd, 2, 0, 0);
    say_timed("takes in the end", fd, 20, 0, 150);
    say_timed("finds nothing", fd, 20, 0, 150);
    have_octets(fd, "1234567890");
    say_ready("enough", fd);
    say_timed("takes", fd, 20, 0, 0);
    have_octets(fd, "abc");
    say_timed("takes without waiting", fd, 20, MSG_DONTWAIT, 0);
    set_timeout(fd, 0);
    have_octets(fd, "12345");
    have_signal(150);
    say_timed("takes at a signal", fd, 20, 0, 150);
    struct later later = {fd, 100, "0123456789abcdef"};
    pthread_t thread = begun(sends_later, &later);
    have_octets(fd, "56");
    say_timed("takes as it comes", fd, 20, 0, 100);
    ended(thread);
    later = (struct later){fd, 100, NULL};
    thread = begun(shuts_later, &later);
    have_octets(fd, "56");
    say_timed("takes at the end", fd, 20, 0, 100);
    ended(thread);
    MUST(close(fd));
}

static void low_water(void)
{
    low_water_with(connected());
    int listener = listening();
    low_water_with(accepted(listener));
    MUST(close(listener));
}

CASES({"peek_all", peek_all},
      {"low_water", low_water})
