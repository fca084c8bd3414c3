/* SO_REUSEADDR: several processes have a port, and the kernel says whose a datagram is. */
#include "case.h"

static int reusing(const char *ip, int port)
{
    int fd = udp(), on = 1;
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    struct sockaddr_in self = address(ip, port);
    MUST(bind(fd, generic(&self), sizeof self));
    return fd;
}

static void connect_to_peer(int fd)
{
    struct sockaddr_in peer = address(PEER, PEER_PORT);
    MUST(connect(fd, generic(&peer), sizeof peer));
}

/* Receives what comes within a while, and says how much. */
static void say_all(const char *what, int fd)
{
    char buffer[100];
    int count = 0;
    set_timeout(fd, 400);
    while (recv(fd, buffer, sizeof buffer, 0) >= 0)
        count++;
    printf("%s: %d\n", what, count);
}

static void wait_for(pid_t child)
{
    int status;
    MUST(waitpid(child, &status, 0));
    printf("child ended with %d\n", status);
}

/* A server for datagrams that has a process for each client, as those for DTLS do. */
static void a_connected_child(void)
{
    int server = reusing("0.0.0.0", 7790);
    set_timeout(server, 5000);
    for (int round = 0; round < 5; round++) {
        ask(server, 1, 20);
        say_recv("server", server, 64, 0);
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            if (round % 2)
                close(server);
            int fd = reusing(SELF, 7790);
            connect_to_peer(fd);
            set_timeout(fd, 2000);
            /* Nothing may be lost or go elsewhere, from the first one on. */
            for (int i = 0; i < 20; i++) {
                ask(fd, 1, 30 + i);
                say_recv("child", fd, 64, 0);
            }
            fflush(stdout);
            _exit(0);
        }
        wait_for(child);
        say_all("left for the server", server);
        set_timeout(server, 5000);
    }
    ask(server, 3, 10);
    say_all("server, alone", server);
}

/* Runs this program without the library, in the role that SHARING_ROLE says. Returns when it has bound its socket. */
static pid_t stranger(const char *role)
{
    int ready[2];
    char byte;
    MUST(pipe(ready));
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        char number[20];
        snprintf(number, sizeof number, "%d", ready[1]);
        close(ready[0]);
        unsetenv("LD_PRELOAD");
        setenv("SHARING_READY", number, 1);
        execl("/proc/self/exe", "sharing", role, NULL);
        _exit(9);
    }
    close(ready[1]);
    must(read(ready[0], &byte, 1) == 1, "the stranger is ready", __LINE__);
    close(ready[0]);
    return child;
}

static void is_ready(void)
{
    must(write(atoi(getenv("SHARING_READY")), "r", 1) == 1, "write", __LINE__);
    /* What the other process may take to notice. */
    sleep_msec(1200);
}

static void connected_stranger(void)
{
    int fd = reusing(SELF, 7791);
    connect_to_peer(fd);
    is_ready();
    ask(fd, 5, 30);
    say_all("stranger", fd);
}

static void unconnected_stranger(void)
{
    int fd = reusing(SELF, 7791);
    is_ready();
    ask(fd, 5, 30);
    say_all("stranger", fd);
}

static void first_stranger(void)
{
    int fd = reusing(SELF, 7791);
    connect_to_peer(fd);
    must(write(atoi(getenv("SHARING_READY")), "r", 1) == 1, "write", __LINE__);
    say_all("stranger", fd);
}

static void a_stranger(const char *role)
{
    int server = reusing("0.0.0.0", 7791);
    set_timeout(server, 5000);
    ask(server, 1, 20);
    say_recv("server", server, 64, 0);
    wait_for(stranger(role));
    say_all("left for the server", server);
    ask(server, 3, 10);
    say_all("server, alone", server);
}

static void a_connected_stranger(void)
{
    a_stranger("connected_stranger");
}

static void an_unconnected_stranger(void)
{
    a_stranger("unconnected_stranger");
}

/* The stranger was there before. */
static void a_stranger_before(void)
{
    int helper = bound();
    set_timeout(helper, 5000);
    ask(helper, 1, 10);
    say_recv("helper", helper, 64, 0);
    pid_t child = stranger("first_stranger");
    int server = reusing("0.0.0.0", 7791);
    ask_for(helper, 4, 20, 0, 0, 7791);
    ask_for(helper, 2, 20, 0, 1, 7791);
    wait_for(child);
    say_all("server", server);
}

/* An option of later: what decides is what it is when the other socket is bound. */
static void the_option_comes_later(void)
{
    int server = bound_to("0.0.0.0", 7791), on = 1;
    set_timeout(server, 5000);
    ask(server, 1, 20);
    say_recv("server", server, 64, 0);
    MUST(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    wait_for(stranger("connected_stranger"));
    say_all("left for the server", server);
}

CASES({"a_connected_child", a_connected_child}, {"a_connected_stranger", a_connected_stranger},
      {"an_unconnected_stranger", an_unconnected_stranger}, {"a_stranger_before", a_stranger_before},
      {"the_option_comes_later", the_option_comes_later}, {"connected_stranger", connected_stranger},
      {"unconnected_stranger", unconnected_stranger}, {"first_stranger", first_stranger})
