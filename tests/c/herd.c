/* A server with a thread for each connection, most of which wait for nothing, and its client. What they wait in: recv, poll, select or
 * epoll.
 *
 *   herd serve ADDRESS PORT WAY
 *   herd ask ADDRESS PORT IDLE EXCHANGES
 *
 * The client says: the server's CPU time for each of the exchanges with one thread in microseconds, their median in nanoseconds, and how
 * many exchanges a second there are with all threads at once. */
#include "case.h"
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/select.h>

#define LEN 64
#define ROUNDS 10

static const char *way;

static void no_delay(int fd)
{
    int on = 1;
    MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

/* Until the connection has something, in the way that was asked for. */
static void wait_for(int fd, int set)
{
    if (strcmp(way, "poll") == 0) {
        struct pollfd polled = {fd, POLLIN, 0};
        MUST(poll(&polled, 1, -1));
    } else if (strcmp(way, "select") == 0 && fd < FD_SETSIZE) {
        fd_set read;
        FD_ZERO(&read);
        FD_SET(fd, &read);
        MUST(select(fd + 1, &read, NULL, NULL, NULL));
    } else if (strcmp(way, "epoll") == 0) {
        struct epoll_event event;
        MUST(epoll_wait(set, &event, 1, -1));
    }
}

static long cpu_usec(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    struct timeval all;
    timeradd(&usage.ru_utime, &usage.ru_stime, &all);
    return all.tv_sec * 1000000 + all.tv_usec;
}

static void *serve_one(void *connection)
{
    int fd = (int)(long)connection, set = -1;
    no_delay(fd);
    if (strcmp(way, "epoll") == 0) {
        MUST(set = epoll_create1(0));
        struct epoll_event event = {.events = EPOLLIN};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    }
    for (;;) {
        char buffer[LEN];
        wait_for(fd, set);
        ssize_t len = recv(fd, buffer, sizeof buffer, 0);
        if (len <= 0)
            break;
        if (buffer[0] == 'c')
            snprintf(buffer, sizeof buffer, "%ld", cpu_usec());
        MUST(send(fd, buffer, (size_t)len, MSG_NOSIGNAL));
    }
    if (set >= 0)
        MUST(close(set));
    MUST(close(fd));
    return NULL;
}

static void serve(const struct sockaddr_in *at)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    MUST(listener);
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    MUST(bind(listener, generic(at), sizeof *at));
    MUST(listen(listener, 1024));
    printf("ready\n");
    fflush(stdout);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        MUST(fd);
        pthread_t thread;
        errno = pthread_create(&thread, &small, serve_one, (void *)(long)fd);
        must(errno == 0, "pthread_create", __LINE__);
        pthread_detach(thread);
    }
}

static int connected(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd);
    MUST(connect(fd, generic(to), sizeof *to));
    no_delay(fd);
    return fd;
}

static void say_to(int fd, char letter)
{
    char message[LEN];
    memset(message, letter, sizeof message);
    must(send(fd, message, sizeof message, 0) == LEN, "send", __LINE__);
}

static void hear(int fd, char answer[LEN])
{
    must(recv(fd, answer, LEN, MSG_WAITALL) == LEN, "recv", __LINE__);
}

static long server_cpu_usec(int fd)
{
    char answer[LEN];
    say_to(fd, 'c');
    hear(fd, answer);
    return strtol(answer, NULL, 10);
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void ask_herd(const struct sockaddr_in *to, int idle, int exchanges)
{
    char answer[LEN];
    int *fds = calloc((size_t)idle + 1, sizeof *fds);
    double *times = calloc((size_t)exchanges, sizeof *times);
    for (int i = 0; i <= idle; i++)
        fds[i] = connected(to);
    int one = fds[idle];
    /* The threads are there, and asleep. */
    for (int i = 0; i <= idle; i++) {
        say_to(fds[i], 'x');
        hear(fds[i], answer);
    }
    sleep_msec(300);
    long cpu = server_cpu_usec(one);
    for (int i = 0; i < exchanges; i++) {
        double begun = now_sec();
        say_to(one, 'x');
        hear(one, answer);
        times[i] = now_sec() - begun;
        struct timespec pause = {0, 300000};
        nanosleep(&pause, NULL);
    }
    cpu = server_cpu_usec(one) - cpu;
    qsort(times, (size_t)exchanges, sizeof *times, compare);
    double begun = now_sec();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i <= idle; i++)
            say_to(fds[i], 'x');
        for (int i = 0; i <= idle; i++)
            hear(fds[i], answer);
    }
    double rate = ROUNDS * (idle + 1) / (now_sec() - begun);
    printf("%.2f %.0f %.0f\n", (double)cpu / exchanges, times[exchanges / 2] * 1e9, rate);
}

int main(int count, char **arguments)
{
    must(count >= 5, "arguments", __LINE__);
    struct sockaddr_in at = address(arguments[2], atoi(arguments[3]));
    way = arguments[4];
    if (strcmp(arguments[1], "serve") == 0)
        serve(&at);
    ask_herd(&at, atoi(arguments[4]), atoi(arguments[5]));
    return 0;
}
