/* Programs that use sockets which they were started with, by their numbers: as inetd, CGI and Python's `pass_fds` start them. A case is a kind of socket; each way
   of starting a program is tried with it. */
#include "case.h"
#include <spawn.h>
#include <sys/epoll.h>

#define ECHO_PORT 7100
#define CALLER_PORT 7101

extern char **environ;

enum kind { STREAM, LISTENER, DATAGRAMS };

static enum kind kind;
/* The program's own file, and that of one that is linked statically. */
static const char *self;
static char alone[5000];
static int fd = -1;
static char number[16], letter[2];

static int connected(int port)
{
    struct sockaddr_in peer = address(PEER, port);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    MUST(stream);
    MUST(connect(stream, generic(&peer), sizeof peer));
    set_timeout(stream, 4000);
    return stream;
}

/* Has the peer connect to a listener and say a letter. */
static void is_called(int listener)
{
    char order[32], answer = 0;
    int stream = connected(CALLER_PORT), len = snprintf(order, sizeof order, "%d x\n", port_of(listener));
    must(send(stream, order, (size_t)len, 0) == len, "send", __LINE__);
    must(recv(stream, &answer, 1, 0) == 1, "recv", __LINE__);
    printf("  called: %c\n", answer);
    MUST(close(stream));
}

/* Sends a line of its own and waits for it. */
static void exchange(const char *who, int stream)
{
    char line[64], got[64] = {0};
    size_t len = (size_t)snprintf(line, sizeof line, "%s's line\n", who), have = 0;
    say("  write", write(stream, line, len));
    while (have < len) {
        ssize_t count = read(stream, got + have, len - have);
        if (count <= 0) {
            say("  read", count);
            return;
        }
        have += (size_t)count;
    }
    printf("  %s", got);
}

static void accept_one(int listener)
{
    struct pollfd polled = {listener, POLLIN, 0};
    char got = 0;
    say("  poll", poll(&polled, 1, 4000));
    int stream = accept(listener, NULL, NULL);
    say("  accept", stream < 0 ? -1 : 0);
    if (stream < 0)
        return;
    set_timeout(stream, 4000);
    say("  recv", recv(stream, &got, 1, 0));
    printf("  %c\n", got);
    close(stream);
}

static void use(const char *who, int socket_fd, enum kind of)
{
    set_timeout(socket_fd, 4000);
    if (of == STREAM)
        exchange(who, socket_fd);
    if (of == LISTENER)
        accept_one(socket_fd);
    if (of == DATAGRAMS) {
        say_recv("  what waits", socket_fd, 64, 0);
        ask(socket_fd, 1, 30);
        say_recv("  an answer", socket_fd, 64, 0);
    }
    fflush(stdout);
}

/* The started program: its socket's number, what it is, and how many milliseconds it sleeps before. */
static int program(char **arguments)
{
    sleep_msec(atoi(arguments[4]));
    printf("  started\n");
    use("the program", atoi(arguments[2]), (enum kind)atoi(arguments[3]));
    return 7;
}

static char delay[16] = "0";
static char *arguments[6];
static char *const no_environment[] = {NULL};

static void by_fork(void)
{
    pid_t child = fork();
    if (child == 0) {
        execv(self, arguments);
        _exit(99);
    }
}

static void by_vfork(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execv(self, arguments);
        _exit(99);
    }
}

static void by_two_forks(void)
{
    pid_t child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            execv(self, arguments);
            _exit(99);
        }
        int status;
        waitpid(grandchild, &status, 0);
        _exit(WEXITSTATUS(status));
    }
}

static void by_spawn(void)
{
    pid_t child;
    errno = posix_spawn(&child, self, NULL, NULL, arguments, environ);
    must(errno == 0, "posix_spawn", __LINE__);
}

static char command[5000];

static void by_system(void)
{
    snprintf(command, sizeof command, "%s program %s %s %s", self, arguments[2], arguments[3], arguments[4]);
    say("  system", system(command));
}

static void by_popen(void)
{
    char line[100];
    snprintf(command, sizeof command, "%s program %s %s %s", self, arguments[2], arguments[3], arguments[4]);
    FILE *output = popen(command, "r");
    while (fgets(line, sizeof line, output))
        fputs(line, stdout);
    say("  pclose", pclose(output));
}

/* The library is not in these programs. */
static void by_fork_without(void)
{
    pid_t child = fork();
    if (child == 0) {
        execve(self, arguments, no_environment);
        _exit(99);
    }
}

static void by_vfork_without(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execve(self, arguments, no_environment);
        _exit(99);
    }
}

static void by_spawn_without(void)
{
    pid_t child;
    errno = posix_spawnp(&child, self, NULL, NULL, arguments, no_environment);
    must(errno == 0, "posix_spawnp", __LINE__);
}

static void by_shell_without(void)
{
    snprintf(command, sizeof command, "env -i %s program %s %s %s", self, arguments[2], arguments[3], arguments[4]);
    say("  system", system(command));
}

static void by_spawn_static(void)
{
    pid_t child;
    errno = posix_spawn(&child, alone, NULL, NULL, arguments, environ);
    must(errno == 0, "posix_spawn", __LINE__);
}

static void (*const ways[])(void) = {by_fork, by_vfork, by_two_forks, by_spawn, by_system, by_popen, by_fork_without,
                                     by_vfork_without, by_spawn_without, by_shell_without, by_spawn_static};
static const char *const names[] = {"fork", "vfork", "two forks", "posix_spawn", "system", "popen", "fork, without", "vfork, without",
                                    "posix_spawnp, without", "system, without", "posix_spawn, static"};

static void wait_for_all(void)
{
    int status;
    while (wait(&status) > 0)
        printf("  ended %x\n", status);
}

static void open_one(void)
{
    struct sockaddr_in own = address(SELF, 0);
    if (kind == STREAM) {
        fd = connected(ECHO_PORT);
        exchange("the parent", fd);
    }
    if (kind == LISTENER) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        MUST(bind(fd, generic(&own), sizeof own));
        MUST(listen(fd, 8));
        is_called(fd);
        accept_one(fd);
    }
    if (kind == DATAGRAMS) {
        fd = bound();
        have(fd, 1, 20);
    }
    snprintf(number, sizeof number, "%d", fd);
    snprintf(letter, sizeof letter, "%d", kind);
    char *const list[] = {"started", "program", number, letter, delay, NULL};
    memcpy(arguments, list, sizeof list);
}

static void all(enum kind of)
{
    kind = of;
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        printf("%s\n", names[way]);
        open_one();
        if (kind == LISTENER)
            is_called(fd);
        fflush(stdout);
        ways[way]();
        wait_for_all();
        if (kind == STREAM)
            exchange("the parent", fd);
        if (kind == LISTENER) {
            is_called(fd);
            accept_one(fd);
        }
        if (kind == DATAGRAMS) {
            ask(fd, 1, 25);
            say_recv("  the parent's", fd, 64, 0);
        }
        MUST(close(fd));
    }
}

static void streams(void) { all(STREAM); }
static void listeners(void) { all(LISTENER); }
static void datagrams(void) { all(DATAGRAMS); }

/* The parent closes it at once: the program has it alone. */
static void closed_by_parent(void)
{
    static const size_t these[] = {0, 1, 3, 6, 7, 8};
    kind = STREAM;
    snprintf(delay, sizeof delay, "150");
    for (size_t i = 0; i < sizeof these / sizeof *these; i++) {
        printf("%s\n", names[these[i]]);
        open_one();
        fflush(stdout);
        ways[these[i]]();
        MUST(close(fd));
        wait_for_all();
    }
}

/* Programs that do not touch it. */
static void unused(void)
{
    kind = STREAM;
    open_one();
    for (int i = 0; i < 5; i++) {
        say("system", system("exit 3"));
        exchange("the parent", fd);
    }
    MUST(close(fd));
}

static const struct test_case cases[] = {{"streams", streams},
                                         {"listeners", listeners},
                                         {"datagrams", datagrams},
                                         {"closed_by_parent", closed_by_parent},
                                         {"unused", unused}};

int main(int argc, char **argv)
{
    static char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    MUST(len);
    self = path;
    snprintf(alone, sizeof alone, "%s_alone", path);
    if (argc == 5 && strcmp(argv[1], "program") == 0)
        return program(argv);
    return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
