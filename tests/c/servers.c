/* servers <way> <ip> <port>: processes that serve echoes, as real servers do it. Ends when its standard input does. */
#include "case.h"

static void serve(int fd)
{
    static char buffer[2048];
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        if (len >= 0)
            MUST(sendto(fd, buffer, (size_t)len, 0, generic(&from), from_len));
    }
}

static pid_t start(int fd)
{
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        alarm(200);
        serve(fd);
    }
    return child;
}

static void say_ready(void)
{
    printf("pid %d\nready\n", getpid());
    fflush(stdout);
}

static void wait_for_end(void)
{
    while (getchar() != EOF) {
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const char *way = argv[1], *ip = argv[2];
    int port = atoi(argv[3]);
    if (strcmp(way, "preforked") == 0) {
        int fd = bound_to(ip, port);
        pid_t children[3];
        for (int i = 0; i < 3; i++)
            children[i] = start(fd);
        sleep_msec(300);
        say_ready();
        wait_for_end();
        for (int i = 0; i < 3; i++)
            kill(children[i], SIGKILL);
        return 0;
    }
    if (strcmp(way, "answers") == 0) {
        /* The parent receives; a child a datagram answers through the parent's socket. */
        int fd = bound_to(ip, port);
        say_ready();
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            char buffer[2048];
            struct sockaddr_in from;
            socklen_t from_len = sizeof from;
            ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
            if (len >= 0 && fork() == 0) {
                sendto(fd, buffer, (size_t)len, 0, generic(&from), from_len);
                _exit(0);
            }
        }
    }
    if (strcmp(way, "daemon") == 0) {
        /* What is opened before serves on through the kernel, in a child: the daemon has the interface, for what it opens itself. */
        int before = bound_to(ip, port);
        MUST(daemon(1, 1));
        sleep_msec(200);
        int after = bound_to(ip, port + 1);
        start(before);
        say_ready();
        alarm(200);
        serve(after);
    }
    if (strcmp(way, "child") == 0) {
        /* Parent and child have sockets of their own; the parent ends when its standard input does. */
        int own = bound_to(ip, port);
        pid_t parent = getpid(), child = fork();
        MUST(child);
        if (child != 0) {
            wait_for_end();
            close(own);
            return 0;
        }
        close(own);
        start(bound_to(ip, port + 1));
        say_ready();
        alarm(200);
        while (getppid() == parent)
            sleep_msec(20);
        sleep_msec(1500);
        int late = bound_to(ip, port + 2);
        printf("alone\n");
        fflush(stdout);
        serve(late);
    }
    return 2;
}
