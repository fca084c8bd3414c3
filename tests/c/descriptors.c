/* Copies, reuse and inheritance of descriptors. */
#include "case.h"
#include <spawn.h>
#include <sys/stat.h>

extern char **environ;

static int works(int fd, int len)
{
    set_timeout(fd, 2000);
    ask(fd, 1, len);
    return (int)say_recv("  recv", fd, 64, 0);
}

static void copies(void)
{
    int fd = bound(), copy = dup(fd), third = fcntl(fd, F_DUPFD, 100), fourth = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    printf("third %d\n", third);
    ask(fd, 4, 20);
    await_data(copy);
    sleep_msec(50);
    say_recv("original", fd, 64, 0);
    say_recv("copy", copy, 64, 0);
    say_recv("third", third, 64, 0);
    say_recv("fourth", fourth, 64, 0);
    MUST(close(fd));
    works(copy, 11);
    MUST(close(third));
    works(copy, 12);
    /* The status flags are shared, too. */
    MUST(fcntl(fourth, F_SETFL, O_NONBLOCK));
    say_recv("copy", copy, 64, 0);
    MUST(fcntl(copy, F_SETFL, 0));
    works(fourth, 13);
    MUST(close(copy));
    works(fourth, 14);
    MUST(close(fourth));
    say_recv("closed", fourth, 64, 0);
}

static void replaced(void)
{
    int fd = bound(), other = bound(), pipes[2];
    char byte = 'x';
    MUST(pipe(pipes));
    printf("dup2 to itself %d\n", dup2(fd, fd) == fd);
    works(fd, 10);
    say("dup3 to itself", dup3(fd, fd, 0));
    say("dup2 of a closed one", dup2(900, fd));
    works(fd, 11);
    MUST(dup2(pipes[0], fd));
    MUST(write(pipes[1], &byte, 1));
    say("read of the pipe", read(fd, &byte, 1));
    say("recv of the pipe", recv(fd, &byte, 1, 0));
    MUST(dup2(other, fd));
    works(fd, 12);
    works(other, 13);
    MUST(dup3(other, 200, O_CLOEXEC));
    works(200, 14);
    MUST(close(other));
    MUST(close(fd));
    works(200, 15);
    struct stat status;
    say("fstat", fstat(200, &status));
    printf("socket %d\n", S_ISSOCK(status.st_mode));
}

static void reused(void)
{
    int first = -1;
    for (int round = 0; round < 50; round++) {
        int fd = bound();
        if (first < 0)
            first = fd;
        if (fd != first)
            printf("another number: %d\n", fd);
        if (round % 10 == 0)
            works(fd, 20);
        MUST(close(fd));
        int file = open("/proc/self/comm", O_RDONLY);
        char name[64] = "";
        if (file != first || read(file, name, sizeof name) <= 0)
            printf("the file is wrong: %d\n", file);
        MUST(close(file));
        int tcp = socket(AF_INET, SOCK_STREAM, 0), six = socket(AF_INET6, SOCK_DGRAM, 0);
        if (tcp != first)
            printf("the TCP socket is wrong: %d\n", tcp);
        char byte;
        if (round == 0) {
            say("recv of TCP", recv(tcp, &byte, 1, 0));
            say("recv of IPv6", recv(six, &byte, 1, MSG_DONTWAIT));
        }
        MUST(close(six));
        MUST(close(tcp));
    }
    int raw = socket(AF_UNIX, SOCK_DGRAM, 0);
    printf("same number %d\n", raw == first);
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    MUST(write(pair[0], "unix", 4));
    say_recv("socketpair", pair[1], 64, 0);
}

static void ranges(void)
{
    int low = bound(), fds[5];
    for (int i = 0; i < 5; i++)
        fds[i] = fcntl(low, F_DUPFD, 300 + i);
    int other = bound();
    MUST(dup2(other, 310));
    say("close_range", close_range(300, 303, 0));
    for (int i = 0; i < 5; i++)
        printf("%d open %d\n", fds[i], fcntl(fds[i], F_GETFD) >= 0);
    works(fds[4], 10);
    works(310, 11);
    say("close_range to the end", close_range(300, ~0U, 0));
    works(low, 12);
    works(other, 13);
    say("close-on-exec only", close_range((unsigned)low, (unsigned)other, CLOSE_RANGE_CLOEXEC));
    works(other, 14);
    say("the wrong way round", close_range(9, 8, 0));
    closefrom(low + 1);
    works(low, 15);
    printf("other open %d\n", fcntl(other, F_GETFD) >= 0);
    int fresh = bound();
    works(fresh, 16);
    MUST(close(fresh));
    /* One by one, the library's own among them. */
    int failed = 0;
    for (unsigned number = 900; number < 1100; number++)
        failed += close_range(number, number, 0) != 0;
    printf("%d failed\n", failed);
    works(low, 17);
    fresh = bound();
    works(fresh, 18);
    MUST(close(fresh));
}

static void reap(pid_t child)
{
    int status = -1;
    MUST(waitpid(child, &status, 0));
    printf("child ended: exit %d signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void forked(void)
{
    int fd = bound(), local = bound_to("127.0.0.1", 0), pipes[2];
    works(fd, 10);
    MUST(pipe(pipes));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        /* Sockets of its own, and the inherited ones. */
        int own = bound();
        set_timeout(own, 2000);
        ask(own, 1, 21);
        say_recv("child's own", own, 64, 0);
        struct sockaddr_in self = address("127.0.0.1", port_of(local));
        MUST(sendto(local, "x", 1, 0, generic(&self), sizeof self));
        say_recv("inherited, on loopback", local, 64, 0);
        say_recv("inherited, empty", fd, 64, MSG_DONTWAIT);
        struct pollfd polled = {fd, POLLIN | POLLOUT, 0};
        say("inherited, poll", poll(&polled, 1, 100));
        struct sockaddr_in peer = address(PEER, 7999);
        say("inherited, sendto", sendto(fd, "x", 1, 0, generic(&peer), sizeof peer));
        MUST(close(fd));
        MUST(close(local));
        MUST(write(pipes[1], "x", 1));
        exit(7);
    }
    MUST(child);
    char byte;
    MUST(read(pipes[0], &byte, 1));
    works(fd, 22);
    reap(child);
    works(fd, 23);
    int late = bound();
    works(late, 24);
}

/* The parent closes, the child goes on: as servers that become daemons do. */
static void daemon_like(void)
{
    int fd = bound();
    works(fd, 10);
    fflush(stdout);
    pid_t child = fork();
    if (child != 0) {
        MUST(close(fd));
        reap(child);
        return;
    }
    sleep_msec(200);
    works(fd, 31);
    works(fd, 32);
    exit(0);
}

/* Forks before the first socket. */
static void forked_early(void)
{
    fflush(stdout);
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        int fd = bound();
        works(fd, 10);
        exit(0);
    }
    reap(child);
    int fd = bound();
    works(fd, 11);
}

static void run_true(posix_spawn_file_actions_t *actions)
{
    char *arguments[] = {"true", NULL};
    pid_t child;
    errno = posix_spawn(&child, "/bin/true", actions, NULL, arguments, environ);
    must(errno == 0, "posix_spawn", __LINE__);
    reap(child);
}

static void spawned(void)
{
    int fd = bound(), other = bound();
    works(fd, 10);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, fd);
    posix_spawn_file_actions_adddup2(&actions, 1, other);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    run_true(&actions);
    works(fd, 11);
    works(other, 12);
    fflush(stdout);
    pid_t child = vfork();
    if (child == 0) {
        /* What POSIX does not allow here is done all the same by many a program. */
        close(fd);
        dup2(1, other);
        close_range(3, ~0U, 0);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    reap(child);
    works(fd, 13);
    works(other, 14);
    printf("system: %d\n", system("true"));
    FILE *pipe = popen("echo popen", "r");
    char line[16] = "";
    printf("%s", fgets(line, sizeof line, pipe) ? line : "nothing\n");
    pclose(pipe);
    works(fd, 15);
}

/* The descriptor goes through a UNIX socket and comes back. */
static void passed(void)
{
    int fd = bound(), pair[2];
    works(fd, 10);
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
    char data = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    say("sendmsg", sendmsg(pair[0], &message, 0));
    say("recvmsg", recvmsg(pair[1], &message, 0));
    int copy = -1;
    memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof copy);
    MUST(copy);
    ask(fd, 1, 20);
    set_timeout(copy, 2000);
    say_recv("through the copy", copy, 64, 0);
    MUST(close(fd));
    works(copy, 21);
}

CASES({"copies", copies}, {"replaced", replaced}, {"reused", reused}, {"ranges", ranges}, {"forked", forked},
      {"daemon_like", daemon_like}, {"forked_early", forked_early}, {"spawned", spawned}, {"passed", passed})
