/* Programs that become others, and programs that start others. */
#include "case.h"
#include <spawn.h>
#include <sys/syscall.h>

extern char **environ;

static int fd = -1;
static const char *self;

static void works(int socket_fd, int len)
{
    set_timeout(socket_fd, 2000);
    ask(socket_fd, 1, len);
    say_recv("  recv", socket_fd, 64, 0);
}

static void receive_two(int socket_fd)
{
    say_recv("recv", socket_fd, 64, MSG_DONTWAIT);
    say_recv("recv", socket_fd, 64, MSG_DONTWAIT);
}

static void wait_for(pid_t child)
{
    int status;
    MUST(child);
    MUST(waitpid(child, &status, 0));
    printf("child %x\n", status);
}

/* What the new program does: its socket has the number in the environment. */
static void survivor(void)
{
    const char *number = getenv("TEST_SOCKET");
    int survived = number ? atoi(number) : -1;
    receive_two(survived);
    works(survived, 30);
    works(bound(), 31);
    const char *closed = getenv("TEST_CLOSED");
    if (closed)
        say("closed by exec", recv(atoi(closed), NULL, 0, MSG_DONTWAIT));
}

static void execute(int way)
{
    char *const arguments[] = {"exec", "survivor", NULL};
    switch (way) {
    case 0: execve(self, arguments, environ); break;
    case 1: execv(self, arguments); break;
    case 2: execvp(self, arguments); break;
    case 3: execvpe(self, arguments, environ); break;
    case 4: execl(self, "exec", "survivor", (char *)NULL); break;
    case 5: execlp(self, "exec", "survivor", (char *)NULL); break;
    case 6: execle(self, "exec", "survivor", (char *)NULL, environ); break;
    case 7: fexecve(open(self, O_RDONLY | O_CLOEXEC), arguments, environ); break;
    case 8: execveat(AT_FDCWD, self, arguments, environ, 0); break;
    }
    MUST(-1);
}

enum { WAYS = 9 };

/* What has come before goes on to the new program. */
static void executed(void)
{
    for (int way = 0; way < WAYS; way++) {
        fflush(stdout);
        pid_t child = fork();
        MUST(child);
        if (child == 0) {
            char number[16], other[16];
            fd = bound();
            int closed = bound();
            MUST(fcntl(closed, F_SETFD, FD_CLOEXEC));
            have(fd, 2, 20);
            have(closed, 1, 20);
            snprintf(number, sizeof number, "%d", fd);
            setenv("TEST_SOCKET", number, 1);
            snprintf(other, sizeof other, "%d", closed);
            setenv("TEST_CLOSED", other, 1);
            fflush(stdout);
            execute(way);
        }
        wait_for(child);
    }
}

/* More arguments than come in registers, and none. */
static void many_arguments(void)
{
    fd = bound();
    works(fd, 20);
    fflush(stdout);
    for (int way = 0; way < 4; way++) {
        pid_t child = fork();
        if (child == 0) {
            char *const environment[] = {"GREETING=hello", NULL};
            if (way == 0)
                execl("/bin/echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", "9", (char *)NULL);
            if (way == 1)
                execlp("echo", "echo", "1", "2", "3", "4", (char *)NULL);
            if (way == 2)
                execle("/bin/sh", "sh", "-c", "echo $GREETING $0 $1 $2 $3", "a", "b", "c", "d", (char *)NULL, environment);
            if (way == 3)
                execl("/bin/echo", "echo", (char *)NULL);
            _exit(1);
        }
        wait_for(child);
        fflush(stdout);
    }
    works(fd, 21);
}

/* A program that is not there. */
static void refused(void)
{
    char *const arguments[] = {"nothing", NULL};
    fd = bound();
    have(fd, 2, 20);
    say("execv", execv("/nonexistent/program", arguments));
    receive_two(fd);
    works(fd, 21);
    say("execl", execl("/nonexistent/program", "nothing", (char *)NULL));
    say("execvp", execvp("no-such-program-anywhere", arguments));
    say("execle", execle("/nonexistent/program", "nothing", (char *)NULL, environ));
    struct pollfd polled = {fd, POLLIN, 0};
    ask_for(fd, 1, 22, 100, 0, 0);
    say("poll", poll(&polled, 1, 2000));
    say_recv("recv", fd, 64, 0);
    works(fd, 23);
}

static void *execute_in_thread(void *unused)
{
    execute(1);
    return unused;
}

/* A thread other than the first becomes the new program. */
static void from_a_thread(void)
{
    char number[16];
    fd = bound();
    have(fd, 2, 20);
    snprintf(number, sizeof number, "%d", fd);
    setenv("TEST_SOCKET", number, 1);
    fflush(stdout);
    pthread_t thread;
    pthread_create(&thread, NULL, execute_in_thread, NULL);
    pthread_join(thread, NULL);
}

/* What a child of vfork does before it executes: the parent must not notice. */
static void vforked(void)
{
    int pipes[2];
    fd = bound();
    int other = bound();
    MUST(pipe(pipes));
    have(fd, 5, 20);
    for (int way = 0; way < 5; way++) {
        fflush(stdout);
        pid_t child = vfork();
        if (child == 0) {
            if (way == 0)
                close(fd);
            if (way == 1)
                for (int number = 3; number < 1100; number++)
                    close(number);
            if (way == 2)
                dup2(pipes[0], fd);
            if (way == 3)
                syscall(SYS_close_range, 3, ~0U, 0);
            if (way == 4)
                socket(AF_INET, SOCK_DGRAM, 0);
            if (way % 2)
                _exit(way);
            execl("/bin/true", "true", (char *)NULL);
            _exit(99);
        }
        wait_for(child);
        say_recv("recv", fd, 64, MSG_DONTWAIT);
    }
    works(fd, 21);
    works(other, 22);
    works(bound(), 23);
}

/* The first socket of all is a vfork child's. */
static void vforked_first(void)
{
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        int own = socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_in self_address = address(SELF, 0);
        bind(own, generic(&self_address), sizeof self_address);
        execl("/bin/true", "true", (char *)NULL);
        _exit(99);
    }
    wait_for(child);
    works(bound(), 20);
}

/* A server that is started with its socket as standard input. */
static void from_zero(void)
{
    receive_two(0);
    works(0, 32);
    works(0, 33);
}

static char *const serve_zero[] = {"exec", "from_zero", NULL};

static pid_t fork_with_dup2(void)
{
    pid_t child = fork();
    if (child == 0) {
        dup2(fd, 0);
        execv(self, serve_zero);
    }
    return child;
}

static pid_t vfork_with_dup2(void)
{
    pid_t child = vfork();
    if (child == 0) {
        dup2(fd, 0);
        execv(self, serve_zero);
        _exit(99);
    }
    return child;
}

static pid_t spawn_with_dup2(void)
{
    pid_t child = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 0);
    errno = posix_spawn(&child, self, &actions, NULL, serve_zero, environ);
    must(errno == 0, "posix_spawn", __LINE__);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static void name_socket(void)
{
    char number[16];
    MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
    snprintf(number, sizeof number, "%d", fd);
    setenv("TEST_SOCKET", number, 1);
}

/* Python's pass_fds. */
static pid_t vfork_with_ioctl(void)
{
    name_socket();
    pid_t child = vfork();
    if (child == 0) {
        ioctl(fd, FIONCLEX);
        execl(self, "exec", "survivor", (char *)NULL);
        _exit(99);
    }
    return child;
}

static pid_t vfork_with_fcntl(void)
{
    name_socket();
    pid_t child = vfork();
    if (child == 0) {
        fcntl(fd, F_SETFD, 0);
        execl(self, "exec", "survivor", (char *)NULL);
        _exit(99);
    }
    return child;
}

/* inetd and others start programs on a socket of theirs, and wait until they end. */
static void handed_down(void)
{
    pid_t (*ways[])(void) = {fork_with_dup2, vfork_with_dup2, spawn_with_dup2, vfork_with_ioctl, vfork_with_fcntl};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        fd = bound();
        have(fd, 2, 20);
        fflush(stdout);
        wait_for(ways[way]());
        works(fd, 24);
        MUST(close(fd));
    }
}

/* Programs that do not touch the socket take nothing away. */
static void commands(void)
{
    fd = bound();
    have(fd, 3, 20);
    fflush(stdout);
    say("system", system("exit 3"));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    FILE *output = popen("echo hello", "r");
    char line[64];
    printf("popen: %s", fgets(line, sizeof line, output));
    say("pclose", pclose(output));
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    char *const arguments[] = {"true", NULL};
    pid_t child;
    errno = posix_spawnp(&child, "true", NULL, NULL, arguments, environ);
    must(errno == 0, "posix_spawnp", __LINE__);
    wait_for(child);
    say_recv("recv", fd, 64, MSG_DONTWAIT);
    works(fd, 21);
}

static const struct test_case cases[] = {
    {"survivor", survivor},   {"executed", executed},           {"many_arguments", many_arguments},
    {"refused", refused},     {"from_a_thread", from_a_thread}, {"vforked", vforked},
    {"vforked_first", vforked_first}, {"from_zero", from_zero}, {"handed_down", handed_down},
    {"commands", commands},
};

int main(int argc, char **argv)
{
    static char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    MUST(len);
    self = path;
    return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
