/* Who may bind the port of a stream: what the kernel knows of SO_REUSEADDR. The peer at PORT sends back what comes; that at PEER_PORT
   connects when it is asked to, says 'c' first, and sends back what comes. */
#include "case.h"

#define PORT 7104

static void set(int fd, int name, int value)
{
    MUST(setsockopt(fd, SOL_SOCKET, name, &value, sizeof value));
}

static int get(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    MUST(getsockopt(fd, SOL_SOCKET, name, &value, &len));
    return value;
}

static int stream(int reuses)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    if (reuses)
        set(fd, SO_REUSEADDR, 1);
    return fd;
}

static int bind_to(int fd, const char *ip, int port)
{
    struct sockaddr_in self = address(ip, port);
    return bind(fd, generic(&self), sizeof self);
}

static int connect_to(int fd, int port)
{
    struct sockaddr_in peer = address(PEER, port);
    return connect(fd, generic(&peer), sizeof peer);
}

/* Whether the connection works. */
static void say_echo(int fd)
{
    char octet = 0;
    say("sent", send(fd, "x", 1, MSG_NOSIGNAL));
    say("received", recv(fd, &octet, 1, 0));
    printf("echo %d\n", octet);
}

/* Who else gets the port. */
static void say_others(const char *when, int port)
{
    static const char *const places[] = {NULL, "0.0.0.0", "127.0.0.5"};
    /* Who gets it without the option changes what others get with it. */
    for (int reuses = 1; reuses >= 0; reuses--) {
        for (int i = 0; i < 3; i++) {
            int fd = stream(reuses);
            printf("%s, %s, %s: ", when, reuses ? "reuses" : "alone", places[i] ? places[i] : "the same");
            if (say("bind", bind_to(fd, places[i] ? places[i] : SELF, port)) == 0)
                say("listen", listen(fd, 1));
            MUST(close(fd));
        }
    }
}

/* Another process is told the same. */
static void say_all(const char *when, int port)
{
    int status;
    printf("%s, here\n", when);
    say_others(when, port);
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        printf("%s, in a child\n", when);
        say_others(when, port);
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, &status, 0));
    printf("child %d\n", status);
}

static void client(int is_bound, int reuses)
{
    int fd = stream(reuses);
    printf("client, %s, %s\n", is_bound ? "bound" : "not bound", reuses ? "reuses" : "alone");
    if (is_bound)
        MUST(bind_to(fd, SELF, 0));
    MUST(connect_to(fd, PORT));
    say_echo(fd);
    int port = port_of(fd);
    say_others("connected", port);
    printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
    set(fd, SO_REUSEADDR, !reuses);
    printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
    say_others("changed", port);
    set(fd, SO_REUSEADDR, reuses);
    say_echo(fd);
    say_all("connected", port);
    /* From here on the kernel has it. */
    set(fd, SO_MARK, 1);
    say_all("in the kernel", port);
    printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
    say_echo(fd);
    MUST(close(fd));
}

static void clients(void)
{
    for (int reuses = 0; reuses < 2; reuses++) {
        client(0, reuses);
        client(1, reuses);
    }
}

/* An accepted connection whose listener is gone. */
static void accepted(void)
{
    for (int reuses = 0; reuses < 2; reuses++) {
        char script[40], first = 0;
        int asker = bound(), listener = stream(reuses);
        printf("accepted, %s\n", reuses ? "reuses" : "alone");
        MUST(bind_to(listener, SELF, 0));
        MUST(listen(listener, 16));
        int port = port_of(listener);
        struct sockaddr_in peer = address(PEER, PEER_PORT);
        int len = snprintf(script, sizeof script, "C %d 0", port);
        must(sendto(asker, script, (size_t)len, 0, generic(&peer), sizeof peer) == len, "asking", __LINE__);
        int fd = accept(listener, NULL, NULL);
        MUST(fd);
        say("first", recv(fd, &first, 1, 0));
        say_others("with its listener", port);
        MUST(close(listener));
        say_others("connected", port);
        printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
        set(fd, SO_REUSEADDR, !reuses);
        say_others("changed", port);
        set(fd, SO_MARK, 1);
        printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
        say_others("in the kernel", port);
        say_echo(fd);
        MUST(close(fd));
        MUST(close(asker));
    }
}

/* The option of a socket whose connection has not come to be, or is gone. */
static void failed(void)
{
    int fd = stream(1);
    MUST(bind_to(fd, SELF, 0));
    int port = port_of(fd);
    say("refused", connect_to(fd, 9));
    printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
    say_others("refused", port);
    MUST(connect_to(fd, PORT));
    say_echo(fd);
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    say("dissolved", connect(fd, &nobody, sizeof nobody));
    printf("SO_REUSEADDR %d\n", get(fd, SO_REUSEADDR));
    say_others("dissolved", port);
    MUST(close(fd));
}

CASES({"clients", clients}, {"accepted", accepted}, {"failed", failed})
