/* Sockets that an administrator ends (ss -K, SOCK_DESTROY of sock_diag(7)): what the program sees, and its peer.

   destroyed peer <address>     the peer: tells by another connection how each has ended
   destroyed <case>             */
#include "case.h"
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define PORT 7109
#define NOBODY "10.77.0.9"

/* ---- the peer ---- */

/* The connection by which it tells. */
static int told = -1;

static void *obey(void *argument)
{
    int fd = (int)(long)argument;
    char order;
    ssize_t got;
    while ((got = recv(fd, &order, 1, 0)) == 1) {
        if (order == 'C') {
            told = fd;
            return NULL;
        }
        /* It may be over by now. */
        if (order == 't')
            send(fd, "text", 4, MSG_NOSIGNAL);
        if (order == 'f')
            shutdown(fd, SHUT_WR);
        if (order == 'q') {
            /* Reads nothing any more. */
            struct pollfd polled = {fd, 0, 0};
            socklen_t len = sizeof errno;
            MUST(poll(&polled, 1, 20000));
            MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno, &len));
            got = errno ? -1 : 0;
            break;
        }
    }
    const char *end = got < 0 ? strerrorname_np(errno) : "the end";
    char line[32];
    snprintf(line, sizeof line, "%s\n", end);
    send(told, line, strlen(line), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static void begin_to_obey(int fd)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, obey, (void *)(long)fd) == 0, "pthread_create", __LINE__);
    pthread_detach(thread);
}

/* Connects to who asks by a datagram. */
static void *call(void *argument)
{
    int asked = *(int *)argument;
    for (;;) {
        int port;
        if (recv(asked, &port, sizeof port, 0) != sizeof port)
            continue;
        struct sockaddr_in to = address("10.77.0.2", port);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        MUST(fd);
        if (connect(fd, generic(&to), sizeof to) == 0)
            begin_to_obey(fd);
        else
            close(fd);
    }
    return NULL;
}

__attribute__((noreturn)) static void peer(const char *ip)
{
    struct sockaddr_in self = address(ip, PORT);
    int fd = socket(AF_INET, SOCK_STREAM, 0), asked = bound_to(ip, PORT), on = 1;
    pthread_t thread;
    MUST(fd);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 64));
    must(pthread_create(&thread, NULL, call, &asked) == 0, "pthread_create", __LINE__);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int accepted = accept(fd, NULL, NULL);
        MUST(accepted);
        begin_to_obey(accepted);
    }
}

/* ---- the program ---- */

/* Ends a socket at a port, as an administrator does. */
static void destroy(const char *kind, int port)
{
    char filter[16];
    snprintf(filter, sizeof filter, ":%d", port);
    char *words[] = {"ss", "-K", (char *)kind, "sport", "=", filter, NULL};
    char *nothing[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    must(posix_spawnp(&child, "ss", &actions, NULL, words, nothing) == 0, "ss", __LINE__);
    posix_spawn_file_actions_destroy(&actions);
    MUST(waitpid(child, &status, 0));
    must(status == 0, "ss -K", __LINE__);
}

static int stream(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd);
    return fd;
}

static int connected(void)
{
    int fd = stream();
    struct sockaddr_in to = address(PEER, PORT);
    MUST(connect(fd, generic(&to), sizeof to));
    return fd;
}

static int listening(void)
{
    int fd = stream();
    struct sockaddr_in self = address(SELF, 0);
    MUST(bind(fd, generic(&self), sizeof self));
    MUST(listen(fd, 8));
    return fd;
}

/* The peer connects. */
static void have_connection(int listener)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), port = port_of(listener);
    struct sockaddr_in to = address(PEER, PORT);
    struct pollfd polled = {listener, POLLIN, 0};
    MUST(fd);
    MUST(sendto(fd, &port, sizeof port, 0, generic(&to), sizeof to));
    must(poll(&polled, 1, 5000) == 1, "no connection", __LINE__);
    MUST(close(fd));
}

static int accepted(void)
{
    int listener = listening();
    have_connection(listener);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    MUST(fd);
    MUST(close(listener));
    return fd;
}

static int control = -1;

static void begin(void)
{
    control = connected();
    set_timeout(control, 5000);
    MUST(send(control, "C", 1, 0));
    sleep_msec(50);
}

static void end(void)
{
    MUST(close(control));
    sleep_msec(50);
}

/* Has the peer do something, and waits for what is seen of it. */
static void order(int fd, const char *orders)
{
    struct pollfd polled = {fd, POLLRDHUP, 0};
    int there = 0, texts = strchr(orders, 't') ? 4 : 0;
    must(send(fd, orders, strlen(orders), 0) == (ssize_t)strlen(orders), "send", __LINE__);
    for (int i = 0; there < texts && i < 1000; i++) {
        sleep_msec(5);
        MUST(ioctl(fd, FIONREAD, &there));
    }
    if (strchr(orders, 'f'))
        must(poll(&polled, 1, 5000) == 1, "no end", __LINE__);
}

/* How a connection has ended for the peer. */
static void say_peer(void)
{
    char line[32] = "";
    for (size_t len = 0; len + 1 < sizeof line; len++) {
        if (recv(control, line + len, 1, 0) != 1 || line[len] == '\n') {
            line[len] = 0;
            break;
        }
    }
    printf("  the peer: %s\n", line[0] ? line : "nothing");
}

static void say_error(int fd)
{
    int error = -1;
    socklen_t len = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    printf("  SO_ERROR %s\n", error ? strerrorname_np(error) : "none");
}

static void say_ready(int fd)
{
    struct pollfd polled = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
    int set = epoll_create1(EPOLL_CLOEXEC);
    MUST(poll(&polled, 1, 0));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    event.events = 0;
    MUST(epoll_wait(set, &event, 1, 0));
    printf("  poll %x, epoll %x\n", polled.revents, event.events);
    MUST(close(set));
}

static void say_name(const char *what, int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in of;
    socklen_t len = sizeof of;
    memset(&of, 0, sizeof of);
    if (say(what, name(fd, (struct sockaddr *)&of, &len)) == 0)
        printf("  an address %d, a port %d\n", of.sin_addr.s_addr != 0, of.sin_port != 0);
}

/* What is left of one that has ended. */
static void say_rest(int fd)
{
    struct sockaddr_in to = address(PEER, PORT);
    say_ready(fd);
    say_error(fd);
    say_recv("recv", fd, 9, 0);
    say_error(fd);
    say("send", send(fd, "x", 1, MSG_NOSIGNAL));
    say_ready(fd);
    say_name("getpeername", fd, getpeername);
    say("shutdown", shutdown(fd, SHUT_WR));
    say("connect", connect(fd, generic(&to), sizeof to));
}

/* ---- calls that wait ---- */

static void *waits_in_recv(void *argument)
{
    say_recv("recv", *(int *)argument, 9, 0);
    return NULL;
}

static void *waits_in_recv_for_all(void *argument)
{
    say_recv("recv all", *(int *)argument, 9, MSG_WAITALL);
    return NULL;
}

static void *waits_in_send(void *argument)
{
    static char octets[1 << 16];
    ssize_t sent;
    while ((sent = send(*(int *)argument, octets, sizeof octets, MSG_NOSIGNAL)) > 0) {
    }
    say("send", sent);
    return NULL;
}

static void *waits_in_poll(void *argument)
{
    struct pollfd polled = {*(int *)argument, POLLIN | POLLRDHUP, 0};
    say("poll", poll(&polled, 1, 5000));
    printf("  %x\n", polled.revents);
    return NULL;
}

/* The kernel sets the error of a listener before it shuts it down, which a thread that polls may see: what it is told
 * first is the error and the end, the rest is looked at afterwards. */
static void *waits_in_poll_of_listener(void *argument)
{
    struct pollfd polled = {*(int *)argument, POLLIN | POLLRDHUP, 0};
    say("poll", poll(&polled, 1, 5000));
    printf("  %x\n", polled.revents & (POLLERR | POLLHUP));
    return NULL;
}

static void *waits_in_select(void *argument)
{
    int fd = *(int *)argument;
    struct timeval time = {5, 0};
    fd_set in, except;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    except = in;
    say("select", select(fd + 1, &in, NULL, &except, &time));
    printf("  in %d, except %d\n", FD_ISSET(fd, &in) != 0, FD_ISSET(fd, &except) != 0);
    return NULL;
}

static void wait_in_epoll(int fd, unsigned more)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | more};
    int set = epoll_create1(EPOLL_CLOEXEC);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    for (int i = 0; i < 2; i++) {
        if (say("epoll_wait", epoll_wait(set, &event, 1, i == 0 ? 5000 : 100)) == 1)
            printf("  %x\n", event.events);
    }
    MUST(close(set));
}

static void *waits_in_epoll(void *argument)
{
    wait_in_epoll(*(int *)argument, 0);
    return NULL;
}

static void *waits_for_edge(void *argument)
{
    wait_in_epoll(*(int *)argument, EPOLLET);
    return NULL;
}

static pthread_t begun(void *(*wait)(void *), int *fd)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, wait, fd) == 0, "pthread_create", __LINE__);
    return thread;
}

static void *(*const WAITS[])(void *) = {
    waits_in_recv, waits_in_recv_for_all, waits_in_send, waits_in_poll, waits_in_select, waits_in_epoll, waits_for_edge,
};
#define WAITS_COUNT (sizeof WAITS / sizeof *WAITS)

/* Connections that are old, and such as have just begun. */
static void waiting(void)
{
    begin();
    for (size_t i = 0; i < WAITS_COUNT * 2; i++) {
        int fd = i % 2 ? accepted() : connected();
        order(fd, WAITS[i / 2] == waits_in_send ? "q" : WAITS[i / 2] == waits_in_recv_for_all ? "t" : "");
        pthread_t thread = begun(WAITS[i / 2], &fd);
        sleep_msec(i % 2 == i / 2 % 2 ? 300 : 1200);
        destroy("-tHn", port_of(fd));
        pthread_join(thread, NULL);
        say_peer();
        say_rest(fd);
        MUST(close(fd));
    }
    end();
}

static void await_error(int fd)
{
    struct pollfd polled = {fd, 0, 0};
    must(poll(&polled, 1, 5000) == 1, "it lives", __LINE__);
}

/* What was not read can be; and either side, or both, may have said all. */
static void in_other_states(void)
{
    /* Orders for the peer, whether this side ends, and whether the connection is young. */
    static const struct {
        const char *orders;
        int shuts, is_young;
    } states[] = {{"t", 0, 0}, {"tf", 0, 0}, {"f", 0, 1}, {"q", 1, 0}, {"tq", 1, 1}, {"f", 1, 0}};
    begin();
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int fd = i % 2 ? accepted() : connected();
        printf("%zu\n", i);
        order(fd, states[i].orders);
        if (states[i].shuts)
            MUST(shutdown(fd, SHUT_WR));
        sleep_msec(states[i].is_young ? 50 : 700);
        destroy("-tHn", port_of(fd));
        if (strcmp(states[i].orders, "f") != 0 || !states[i].shuts)
            await_error(fd);
        say_peer();
        say_name("getsockname", fd, getsockname);
        say_rest(fd);
        MUST(close(fd));
    }
    end();
}

/* Another connection of the same ends. */
static void once_more(void)
{
    begin();
    struct sockaddr_in self = address(SELF, 7777), to = address(PEER, PORT);
    int first = -1, on = 1;
    for (int i = 0; i < 3; i++) {
        int fd = stream();
        MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
        MUST(bind(fd, generic(&self), sizeof self));
        MUST(connect(fd, generic(&to), sizeof to));
        order(fd, "t");
        say_recv("text", fd, 4, 0);
        destroy("-tHn", 7777);
        await_error(fd);
        say_peer();
        if (first >= 0)
            MUST(close(first));
        /* The one before is open still. */
        first = fd;
    }
    say_rest(first);
    MUST(close(first));
    end();
}

/* One that was never made. */
static void *waits_in_connect(void *argument)
{
    struct sockaddr_in to = address(NOBODY, PORT);
    say("connect", connect(*(int *)argument, generic(&to), sizeof to));
    return NULL;
}

static void connecting(void)
{
    struct sockaddr_in self = address(SELF, 0), to = address(PEER, PORT);
    for (int i = 0; i < 2; i++) {
        int fd = stream();
        MUST(bind(fd, generic(&self), sizeof self));
        pthread_t thread = begun(waits_in_connect, &fd);
        sleep_msec(i ? 1200 : 300);
        destroy("-taHn", port_of(fd));
        pthread_join(thread, NULL);
        say_error(fd);
        say_name("getpeername", fd, getpeername);
        say("connect", connect(fd, generic(&to), sizeof to));
        MUST(close(fd));
    }
}

/* ---- listeners ---- */

static void *waits_in_accept(void *argument)
{
    say("accept", accept(*(int *)argument, NULL, NULL));
    return NULL;
}

static void listener(void)
{
    void *(*const waits[])(void *) = {waits_in_accept, waits_in_poll_of_listener, waits_in_epoll};
    begin();
    for (int i = 0; i < 4; i++) {
        int fd = listening(), is_listening = -1;
        socklen_t len = sizeof is_listening;
        if (i == 3) {
            /* Nobody has accepted it. */
            have_connection(fd);
            sleep_msec(700);
            destroy("-ltHn", port_of(fd));
            await_error(fd);
            say_peer();
        } else {
            pthread_t thread = begun(waits[i], &fd);
            sleep_msec(i ? 900 : 100);
            destroy("-ltHn", port_of(fd));
            pthread_join(thread, NULL);
        }
        MUST(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len));
        printf("listens %d\n", is_listening);
        say_ready(fd);
        MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
        say("accept", accept(fd, NULL, NULL));
        say_error(fd);
        say_ready(fd);
        say("listen", listen(fd, 8));
        MUST(close(fd));
    }
    end();
}

/* ---- datagrams ---- */

static void datagrams(void)
{
    void *(*const waits[])(void *) = {waits_in_recv, waits_in_poll, waits_in_epoll, waits_in_select};
    struct sockaddr_in to = address(PEER, PEER_PORT);
    for (int i = 0; i < 8; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), is_connected = i % 2;
        /* What the program has chosen stays. */
        struct sockaddr_in self = address(SELF, i % 4 < 2 ? 0 : 7778);
        MUST(bind(fd, generic(&self), sizeof self));
        if (is_connected)
            MUST(connect(fd, generic(&to), sizeof to));
        pthread_t thread = begun(waits[i / 2], &fd);
        sleep_msec(100);
        destroy("-uaHn", port_of(fd));
        pthread_join(thread, NULL);
        say_ready(fd);
        say_error(fd);
        say_name("getsockname", fd, getsockname);
        say_name("getpeername", fd, getpeername);
        say("send", send(fd, "x", 1, 0));
        set_timeout(fd, 3000);
        ask(fd, 1, 10);
        say_recv("from the peer", fd, 20, 0);
        if (is_connected) {
            MUST(connect(fd, generic(&to), sizeof to));
            ask(fd, 1, 10);
            say_recv("from the peer", fd, 20, 0);
        }
        MUST(close(fd));
    }
    /* Without a call that waits. */
    for (int i = 0; i < 4; i++) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_in self = address(SELF, 0);
        MUST(bind(fd, generic(&self), sizeof self));
        MUST(connect(fd, generic(&to), sizeof to));
        sleep_msec(100);
        destroy("-uaHn", port_of(fd));
        sleep_msec(100);
        if (i == 0)
            say("send", send(fd, "x", 1, 0));
        if (i == 1)
            say_recv("recv", fd, 9, 0);
        if (i == 2)
            say_error(fd);
        say_name("getpeername", fd, getpeername);
        say("send", send(fd, "x", 1, 0));
        say_recv("recv", fd, 9, 0);
        MUST(close(fd));
    }
}

/* ---- a child ---- */

static void passed_on(void)
{
    begin();
    for (int i = 0; i < 4; i++) {
        int fd = connected(), status;
        order(fd, i % 2 ? "t" : "");
        order(fd, i / 2 ? "f" : "");
        sleep_msec(700);
        destroy("-tHn", port_of(fd));
        await_error(fd);
        say_peer();
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            say_ready(fd);
            say_recv("recv", fd, 9, 0);
            say_rest(fd);
            fflush(stdout);
            _exit(0);
        }
        MUST(waitpid(child, &status, 0));
        say_rest(fd);
        MUST(close(fd));
    }
    end();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"waiting", waiting},   {"in_other_states", in_other_states}, {"once_more", once_more}, {"connecting", connecting},
        {"listener", listener}, {"datagrams", datagrams},             {"passed_on", passed_on},
    };
    if (argc == 3 && strcmp(argv[1], "peer") == 0)
        peer(argv[2]);
    return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
