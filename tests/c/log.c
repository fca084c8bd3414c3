/* Programs whose library logs: what it says, and where. Needs no network: a UDP socket starts the library, and an option that
 * needs the kernel makes it say so at level debug. */
#include "case.h"
#include <sys/un.h>

/* Two lines at level debug. */
static void noisy(void)
{
    int fd = udp(), on = 1;
    MUST(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &on, sizeof on));
    close(fd);
}

static void take(int level, const char *line)
{
    printf("%d:%s", level, line);
}

/* The program takes the lines itself. */
static void taken(void)
{
    char address[32];
    snprintf(address, sizeof address, "%p", (void *)(size_t)take);
    MUST(setenv("VMA_LOG_CB_FUNC_PTR", address, 1));
    noisy();
}

/* The library starts, and says its banner. */
static void starts(void)
{
    udp();
    printf("started\n");
}

/* It goes on for a while, and then has more to say. */
static void stays(void)
{
    udp();
    sleep_msec(3000);
    noisy();
}

/* Everything that is not a UDP socket over IPv4: the library has nothing to say. */
static void other_sockets(void)
{
    MUST(socket(AF_UNIX, SOCK_DGRAM, 0));
    MUST(socket(AF_UNIX, SOCK_STREAM, 0));
    MUST(socket(AF_NETLINK, SOCK_RAW, 0));
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(pipe(pair));
    MUST(write(pair[1], "x", 1));
    struct pollfd polled = {pair[0], POLLIN, 0};
    MUST(poll(&polled, 1, 0));
    char byte;
    MUST(read(pair[0], &byte, 1));
    MUST(fork() ? wait(NULL) : (_exit(0), 0));
    printf("silent\n");
}

static void *noise(void *unused)
{
    for (int i = 0; i < 50; i++)
        noisy();
    return unused;
}

static void many_threads(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        must(pthread_create(&threads[i], NULL, noise, NULL) == 0, "pthread_create", __LINE__);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("done\n");
}

static void say_contents(const char *what, int fd)
{
    char text[4096];
    ssize_t len = pread(fd, text, sizeof text, 0);
    MUST(len);
    int lines = 0;
    for (ssize_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    printf("%s: %s\n", what, lines ? "lines of the log" : len ? "something" : "nothing");
}

/* Descriptor 2 is closed, and what is opened next gets the number. */
static void number_reused(void)
{
    noisy();
    char name[] = "/tmp/vma-log-XXXXXX";
    int other = mkstemp(name);
    MUST(other);
    close(2);
    int file = open(name, O_RDWR);
    MUST(file == 2 ? 0 : -1);
    noisy();
    say_contents("a file", other);

    close(2);
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(pair[0] == 2 ? 0 : -1);
    noisy();
    char bytes[64];
    say("read from a connection", recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT));

    close(2);
    MUST(open(name, O_WRONLY | O_APPEND) == 2 ? 0 : -1);
    noisy();
    say_contents("a file opened for appending", other);
    unlink(name);
}

/* Descriptor 2 is closed and stays so; then it is the library's first socket. */
static void closed(void)
{
    close(2);
    MUST(udp() == 2 ? 0 : -1);
    noisy();
    printf("done\n");
}

/* The program gives standard error another file on purpose. */
static void redirected(void)
{
    noisy();
    char name[] = "/tmp/vma-log-XXXXXX";
    int file = mkstemp(name);
    MUST(file);
    MUST(dup2(file, 2));
    noisy();
    say_contents("after dup2", file);
    MUST(ftruncate(file, 0));
    close(2);
    MUST(dup(file) == 2 ? 0 : -1);
    noisy();
    say_contents("after close and dup", file);
    unlink(name);
    char other[] = "/tmp/vma-log-XXXXXX";
    file = mkstemp(other);
    MUST(file);
    must(freopen(other, "w", stderr) != NULL, "freopen", __LINE__);
    noisy();
    say_contents("after freopen", file);
    unlink(other);

    /* A child that shares our memory redirects its own standard error. */
    MUST(ftruncate(file, 0));
    pid_t child = vfork();
    MUST(child);
    if (child == 0) {
        dup2(1, 2);
        _exit(0);
    }
    wait(NULL);
    noisy();
    say_contents("after vfork", file);
}

/* Nobody reads standard error any more. */
static void reader_gone(void)
{
    int ends[2];
    MUST(pipe(ends));
    MUST(dup2(ends[1], 2));
    close(ends[0]);
    noisy();
    printf("alive\n");
    say("write", write(2, "x", 1));
    printf("not reached: the program's own writes raise SIGPIPE\n");
}

/* Standard error is a terminal; what is written to it is copied to standard output. */
static void terminal(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    MUST(master);
    MUST(grantpt(master));
    MUST(unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    MUST(slave);
    MUST(dup2(slave, 2));
    udp();
    fcntl(master, F_SETFL, O_NONBLOCK);
    char text[65536];
    ssize_t len;
    while ((len = read(master, text, sizeof text)) > 0)
        fwrite(text, 1, (size_t)len, stdout);
}

static void *change_environment(void *ends)
{
    char name[32];
    for (int i = 0; !*(volatile int *)ends; i++) {
        snprintf(name, sizeof name, "NAME_%d", i);
        setenv(name, "value", 1);
        if (i % 500 == 0)
            clearenv();
    }
    return NULL;
}

/* The program changes its environment before the first socket, and another thread does so meanwhile. */
static void environment_changes(void)
{
    pthread_t thread;
    int ends = 0;
    setenv("VMA_TRACELEVEL", "none", 1);
    must(pthread_create(&thread, NULL, change_environment, &ends) == 0, "pthread_create", __LINE__);
    sleep_msec(20);
    udp();
    ends = 1;
    pthread_join(thread, NULL);
    printf("started\n");
}

CASES({"taken", taken}, {"starts", starts}, {"stays", stays}, {"environment_changes", environment_changes}, {"other_sockets", other_sockets}, {"many_threads", many_threads},
      {"number_reused", number_reused}, {"closed", closed}, {"redirected", redirected},
      {"reader_gone", reader_gone}, {"terminal", terminal})
