// TCP of all kinds for as long as it is told, every octet checked; what is left of it then is told.
//
//   soak <own address> <peer's address> <port> <seconds> <seed>
//
// An echo server of the peer's is at <port>; one of this program's, which closes its listener now and then and opens it anew, at
// <port> + 1. It says "warm" after a fifth of the time, and goes on when it is told to.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 4
// Longer than any connection waits that is alive, on a machine that stands still for most of a minute.
#define STUCK_MSEC 75000

static struct sockaddr_in own, peer;
static double until;
static atomic_int handlers;
static atomic_long done[8], served;

static void check(int ok, const char *what) {
    if (!ok) {
        printf("FAILED: %s: errno %d\n", what, errno);
        fflush(stdout);
        _exit(1);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static unsigned char octet(size_t i) { return (unsigned char)(i * 131 + (i >> 8) * 7 + (i >> 16)); }

static int connected(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd >= 0, "socket");
    check(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0, "connect");
    return fd;
}

// Sends up to `len` and receives up to `stop` of it, beginning where `sent` and `received` say.
static void exchange(int fd, size_t *sent, size_t *received, size_t stop, size_t len) {
    unsigned char buffer[30000];
    while (*received < stop) {
        struct pollfd polled = {fd, POLLIN | (*sent < len ? POLLOUT : 0), 0};
        int count = poll(&polled, 1, STUCK_MSEC);
        check(count == 1, count ? "poll" : "a connection is stuck");
        if (polled.revents & POLLOUT) {
            size_t most = len - *sent < sizeof buffer ? len - *sent : sizeof buffer;
            for (size_t i = 0; i < most; i++) buffer[i] = octet(*sent + i);
            ssize_t some = send(fd, buffer, most, MSG_DONTWAIT);
            check(some > 0 || errno == EAGAIN, "send");
            if (some > 0) *sent += (size_t)some;
        }
        if (polled.revents & ~POLLOUT) {
            size_t most = stop - *received < sizeof buffer ? stop - *received : sizeof buffer;
            ssize_t some = recv(fd, buffer, most, MSG_DONTWAIT);
            check(some > 0 || (some < 0 && errno == EAGAIN), "recv");
            for (ssize_t i = 0; i < some; i++) check(buffer[i] == octet(*received + (size_t)i), "an octet");
            if (some > 0) *received += (size_t)some;
        }
    }
}

static void end(int fd) {
    char rest;
    check(shutdown(fd, SHUT_WR) == 0, "shutdown");
    struct pollfd polled = {fd, POLLIN, 0};
    check(poll(&polled, 1, STUCK_MSEC) == 1, "an end does not come");
    check(recv(fd, &rest, 1, 0) == 0, "the end");
    check(close(fd) == 0, "close");
}

static void wait_for(pid_t child, int signal) {
    int status;
    check(waitpid(child, &status, 0) == child, "waitpid");
    check(status == signal, "the child");
}

static void *client(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    while (seconds() < until) {
        size_t len = 1 + (size_t)rand_r(&random) % 300000, half = len / 2, sent = 0, received = 0, both[2];
        int kind = rand_r(&random) % 8, pipes[2], zero = 0;
        if (kind == 5) {
            // A child with connections of its own is killed.
            pid_t child = fork();
            if (child == 0)
                for (;;) {
                    int fd = connected();
                    sent = received = 0;
                    exchange(fd, &sent, &received, len, len);
                    end(fd);
                }
            usleep((useconds_t)rand_r(&random) % 100000);
            check(kill(child, SIGKILL) == 0, "kill");
            wait_for(child, SIGKILL);
            done[kind]++;
            continue;
        }
        int fd = connected();
        exchange(fd, &sent, &received, half, len);
        struct linger reset = {1, 0};
        switch (kind) {
        case 3: check(setsockopt(fd, SOL_SOCKET, SO_MARK, &zero, sizeof zero) == 0, "SO_MARK"); break;
        case 4:
            check(pipe(pipes) == 0, "pipe");
            pid_t child = fork();
            if (child == 0) {
                exchange(fd, &sent, &received, half + half / 2, len);
                both[0] = sent;
                both[1] = received;
                check(write(pipes[1], both, sizeof both) == sizeof both, "write");
                _exit(0);
            }
            check(read(pipes[0], both, sizeof both) == sizeof both, "read");
            sent = both[0];
            received = both[1];
            close(pipes[0]);
            close(pipes[1]);
            wait_for(child, 0);
            break;
        case 6: check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0, "SO_LINGER"); break;
        default: break;
        }
        if (kind >= 6) {
            // In the middle.
            check(close(fd) == 0, "close");
        } else {
            exchange(fd, &sent, &received, len, len);
            end(fd);
        }
        done[kind]++;
    }
    return NULL;
}

static void *handler(void *argument) {
    int fd = (int)(size_t)argument;
    char buffer[20000];
    for (ssize_t len; (len = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        for (ssize_t sent = 0, some; sent < len; sent += some) {
            some = send(fd, buffer + sent, (size_t)(len - sent), MSG_NOSIGNAL);
            if (some < 0) break;
        }
    close(fd);
    served++;
    handlers--;
    return NULL;
}

static void *server(void *unused) {
    while (seconds() < until) {
        int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
        check(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
        // Children of other threads have the last one for a moment.
        for (int tries = 0; bind(listener, (struct sockaddr *)&own, sizeof own) != 0; usleep(1000)) check(tries++ < STUCK_MSEC, "bind");
        check(listen(listener, 64) == 0, "listen");
        for (double reload = seconds() + 1; seconds() < reload;) {
            struct pollfd polled = {listener, POLLIN, 0};
            if (poll(&polled, 1, 100) != 1) continue;
            int fd = accept4(listener, NULL, NULL, 0);
            if (fd < 0) continue;
            pthread_t thread;
            handlers++;
            check(pthread_create(&thread, NULL, handler, (void *)(size_t)fd) == 0, "pthread_create");
            pthread_detach(thread);
        }
        check(close(listener) == 0, "close");
    }
    return unused;
}

static void run(double time, unsigned seed) {
    pthread_t threads[CLIENTS + 1];
    until = seconds() + time;
    check(pthread_create(&threads[CLIENTS], NULL, server, NULL) == 0, "pthread_create");
    for (size_t i = 0; i < CLIENTS; i++)
        check(pthread_create(&threads[i], NULL, client, (void *)(seed * CLIENTS + i)) == 0, "pthread_create");
    for (int i = 0; i <= CLIENTS; i++) pthread_join(threads[i], NULL);
    for (double stuck = seconds() + STUCK_MSEC / 1000.0; handlers > 0; usleep(10000))
        check(seconds() < stuck, "a connection of the server is stuck");
}

static void say(const char *what) {
    printf("%s:", what);
    for (int i = 0; i < 8; i++) printf(" %ld", done[i]);
    printf(", served %ld\n", served);
    fflush(stdout);
}

int main(int argc, char **argv) {
    check(argc == 6, "arguments");
    own.sin_family = peer.sin_family = AF_INET;
    check(inet_pton(AF_INET, argv[1], &own.sin_addr) == 1, "address");
    check(inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1, "address");
    peer.sin_port = htons((uint16_t)atoi(argv[3]));
    own.sin_port = htons((uint16_t)(atoi(argv[3]) + 1));
    double time = atof(argv[4]);
    unsigned seed = (unsigned)atoi(argv[5]);
    run(time / 5, seed);
    say("warm");
    char word[16];
    check(fgets(word, sizeof word, stdin) != NULL, "the word to go on");
    run(time / 5 * 4, seed + 1);
    say("done");
    check(fgets(word, sizeof word, stdin) != NULL, "the word to end");
    return 0;
}
