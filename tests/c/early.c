/* Sockets that are used before any library's constructor has run, and while the process ends. */
#include "case.h"

static int early_fd = -1;
static int early_len;

static void use_early(int argc, char **argv, char **environment)
{
    if (argc != 2 || strcmp(argv[1], "early") != 0)
        return;
    /* The C library's own constructor has not run either. */
    environ = environment;
    early_fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in self = address(SELF, 0), peer = address(PEER, PEER_PORT);
    bind(early_fd, generic(&self), sizeof self);
    struct timeval timeout = {2, 0};
    setsockopt(early_fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    sendto(early_fd, "S 2 20 0 0 0", 12, 0, generic(&peer), sizeof peer);
    char buffer[64];
    early_len = (int)recv(early_fd, buffer, sizeof buffer, 0);
}

/* Before the constructors of the shared libraries, preloaded ones included. */
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = use_early;

static void early(void)
{
    printf("received %d\n", early_len);
    say_recv("recv", early_fd, 64, 0);
    set_timeout(early_fd, 2000);
    ask(early_fd, 1, 21);
    say_recv("recv", early_fd, 64, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ask(early_fd, 1, 22);
        say_recv("in the child", early_fd, 64, 0);
        fflush(stdout);
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0));
}

static int late_fd = -1;

static void use_late(void)
{
    set_timeout(late_fd, 2000);
    ask(late_fd, 1, 23);
    say_recv("in an exit handler", late_fd, 64, 0);
    int own = bound();
    set_timeout(own, 2000);
    ask(own, 1, 24);
    say_recv("on a socket of its own", own, 64, 0);
    MUST(close(own));
}

__attribute__((destructor)) static void use_last(void)
{
    if (late_fd >= 0)
        use_late();
}

/* Exit handlers that are registered before the first socket run after the library's own, destructors after all. */
static void late(void)
{
    atexit(use_late);
    late_fd = bound();
    set_timeout(late_fd, 2000);
    ask(late_fd, 1, 20);
    say_recv("recv", late_fd, 64, 0);
    atexit(use_late);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(0);
    MUST(waitpid(child, NULL, 0));
}

CASES({"early", early}, {"late", late})
