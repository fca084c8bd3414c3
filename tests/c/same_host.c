// Two processes with a connection over the loopback interface: one serves, one asks. What the client
// says it has seen is the same on the kernel and in memory that both share.
//
//   same_host serve PORT         says "ready", answers connections until its standard input ends
//   same_host ask PORT CASE      makes a connection and says what it sees

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ECHO = 1, CLOSE_UNREAD, HALF, SINK, SOURCE, DIE, LATE, WHO };

struct request {
    uint32_t what;
    uint32_t count;
};

static int only_echoes;

static void fail(const char *what) {
    // The end of one connection, where others go on.
    if (only_echoes)
        pthread_exit(NULL);
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static uint8_t octet(uint64_t position) {
    return (uint8_t)((position * 0x9e3779b97f4a7c15ull >> 56) ^ (position >> 13));
}

static void send_all(int fd, const void *data, size_t len) {
    for (size_t done = 0; done < len;) {
        ssize_t count = send(fd, (const char *)data + done, len - done, MSG_NOSIGNAL);
        if (count < 0 && errno != EINTR)
            fail("send");
        done += count > 0 ? (size_t)count : 0;
    }
}

static size_t receive_all(int fd, void *data, size_t len) {
    size_t done = 0;
    while (done < len) {
        ssize_t count = recv(fd, (char *)data + done, len - done, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            fail("recv");
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return done;
}

static void say_count(const char *what, ssize_t count) {
    if (count < 0)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: %zd\n", what, count);
}

static void pause_msec(long msec) {
    struct timespec time = {msec / 1000, msec % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *serve_one(void *argument) {
    int fd = (int)(intptr_t)argument;
    struct request request;
    char buffer[8192];
    while (receive_all(fd, &request, sizeof request) == sizeof request) {
        // Of what a hostile client makes of its requests some would be obeyed.
        if (only_echoes && request.what != ECHO)
            break;
        switch (request.what) {
        case ECHO:
            for (uint32_t left = request.count; left > 0;) {
                size_t wanted = left < sizeof buffer ? left : sizeof buffer;
                ssize_t count = recv(fd, buffer, wanted, 0);
                if (count <= 0)
                    goto end;
                send_all(fd, buffer, (size_t)count);
                left -= (uint32_t)count;
            }
            break;
        case CLOSE_UNREAD:
            send_all(fd, "bye", 3);
            pause_msec(request.count);
            goto end;
        case HALF:
            send_all(fd, "half", 4);
            shutdown(fd, SHUT_WR);
            break;
        case SINK: {
            uint64_t position = 0;
            for (uint32_t left = request.count; left > 0;) {
                size_t wanted = left < sizeof buffer ? left : sizeof buffer;
                ssize_t count = recv(fd, buffer, wanted, 0);
                if (count <= 0)
                    goto end;
                for (ssize_t i = 0; i < count; i++)
                    if ((uint8_t)buffer[i] != octet(position++)) {
                        send_all(fd, "N", 1);
                        goto end;
                    }
                left -= (uint32_t)count;
            }
            send_all(fd, "Y", 1);
            break;
        }
        case SOURCE: {
            uint64_t position = 0;
            while (position < request.count) {
                size_t len = request.count - position;
                len = len < sizeof buffer ? len : sizeof buffer;
                for (size_t i = 0; i < len; i++)
                    buffer[i] = (char)octet(position++);
                send_all(fd, buffer, len);
            }
            break;
        }
        case DIE:
            send_all(fd, "last", 4);
            pause_msec(request.count);
            raise(SIGKILL);
            break;
        case WHO: {
            int32_t pid = getpid();
            send_all(fd, &pid, sizeof pid);
            break;
        }
        case LATE:
            pause_msec(request.count);
            send_all(fd, "late", 4);
            break;
        }
    }
end:
    close(fd);
    return NULL;
}

static int at_port(int port, struct sockaddr_in *address) {
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("socket");
    return fd;
}

static void *wait_for_end(void *nothing) {
    char letter;
    while (read(STDIN_FILENO, &letter, 1) > 0)
        ;
    exit(0);
    return nothing;
}

static void serve(void) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int listener = at_port(0, &address);
    if (bind(listener, (void *)&address, sizeof address) != 0)
        fail("bind");
    if (listen(listener, 64) != 0)
        fail("listen");
    getsockname(listener, (void *)&address, &len);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_end, NULL);
    printf("ready %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd);
        pthread_detach(thread);
    }
}

static void ask(int fd, uint32_t what, uint32_t count) {
    struct request request = {what, count};
    send_all(fd, &request, sizeof request);
}

static void echo(int fd, size_t len, uint64_t *position) {
    static char sent[65536], received[65536];
    for (size_t i = 0; i < len; i++)
        sent[i] = (char)octet((*position)++);
    ask(fd, ECHO, (uint32_t)len);
    send_all(fd, sent, len);
    if (receive_all(fd, received, len) != len || memcmp(sent, received, len) != 0) {
        printf("WRONG at %llu\n", (unsigned long long)*position);
        exit(1);
    }
}

static void warm(int fd) {
    uint64_t position = 0;
    for (int i = 0; i < 40; i++) {
        echo(fd, 10, &position);
        pause_msec(2);
    }
}

static void echoes(int fd) {
    uint64_t position = 0;
    unsigned seed = 7;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        size_t most = i % 50 == 0 ? 60000 : 300;
        echo(fd, 1 + (seed >> 8) % most, &position);
        if (i < 30)
            pause_msec(1);
    }
    printf("echoes right\n");
}

static void bulk(int fd) {
    static char buffer[100000];
    const uint32_t total = 20000000;
    uint64_t position = 0;
    ask(fd, SINK, total);
    while (position < total) {
        size_t len = sizeof buffer;
        len = len < total - position ? len : total - position;
        for (size_t i = 0; i < len; i++)
            buffer[i] = (char)octet(position++);
        send_all(fd, buffer, len);
    }
    char answer;
    receive_all(fd, &answer, 1);
    printf("sink %c\n", answer);
    ask(fd, SOURCE, total);
    for (position = 0; position < total;) {
        ssize_t count = recv(fd, buffer, sizeof buffer, 0);
        if (count <= 0)
            fail("recv");
        for (ssize_t i = 0; i < count; i++)
            if ((uint8_t)buffer[i] != octet(position++)) {
                printf("WRONG at %llu\n", (unsigned long long)position);
                exit(1);
            }
    }
    printf("source right\n");
}

// Non-blocking, all of it by one epoll set.
static void events(int fd) {
    const uint32_t total = 5000000;
    static char out[30000], in[30000];
    ask(fd, ECHO, total);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    uint64_t sent = 0, received = 0;
    while (received < total) {
        if (epoll_wait(set, &event, 1, 5000) != 1)
            fail("epoll_wait");
        if (event.events & EPOLLOUT && sent < total) {
            size_t len = sizeof out < total - sent ? sizeof out : total - sent;
            for (size_t i = 0; i < len; i++)
                out[i] = (char)octet(sent + i);
            ssize_t count = send(fd, out, len, 0);
            if (count < 0 && errno != EAGAIN)
                fail("send");
            sent += count > 0 ? (uint64_t)count : 0;
            if (sent == total) {
                event.events = EPOLLIN;
                epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
            }
        }
        if (event.events & EPOLLIN) {
            ssize_t count = recv(fd, in, sizeof in, 0);
            if (count < 0 && errno != EAGAIN)
                fail("recv");
            for (ssize_t i = 0; i < count; i++)
                if ((uint8_t)in[i] != octet(received++)) {
                    printf("WRONG at %llu\n", (unsigned long long)received);
                    exit(1);
                }
        }
    }
    printf("nothing left: %d\n", epoll_wait(set, &event, 1, 20));
    char letter;
    say_count("recv", recv(fd, &letter, 1, 0));
    close(set);
}

// Edges come once for each arrival.
static void edges(int fd) {
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    for (int i = 0; i < 3; i++) {
        ask(fd, LATE, 20);
        int first = epoll_wait(set, &event, 1, 2000), second = epoll_wait(set, &event, 1, 20);
        printf("edge %d %d\n", first, second);
    }
    char buffer[12];
    printf("read %zu\n", receive_all(fd, buffer, sizeof buffer));
    close(set);
}

static void semantics(int fd) {
    char buffer[64];
    struct timeval time = {0, 50000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    say_count("timeout", recv(fd, buffer, 1, 0));
    time.tv_usec = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    say_count("dontwait", recv(fd, buffer, 1, MSG_DONTWAIT));
    ask(fd, LATE, 30);
    printf("waitall %zd\n", recv(fd, buffer, 4, MSG_WAITALL));
    ask(fd, LATE, 0);
    ask(fd, LATE, 30);
    printf("waitall of two %zd\n", recv(fd, buffer, 8, MSG_WAITALL));
    ask(fd, LATE, 0);
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};
    while (poll(&polled, 1, 2000) == 1 && !(polled.revents & POLLIN))
        ;
    printf("poll %x\n", polled.revents);
    int readable = 0;
    ioctl(fd, FIONREAD, &readable);
    printf("readable %d\n", readable);
    printf("peek %zd\n", recv(fd, buffer, 2, MSG_PEEK));
    printf("peek %zd %.4s\n", recv(fd, buffer, sizeof buffer, MSG_PEEK), buffer);
    struct iovec parts[2] = {{buffer, 1}, {buffer + 1, 9}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    printf("recvmsg %zd %.4s %d\n", recvmsg(fd, &message, 0), buffer, message.msg_flags);
    printf("empty %zd\n", send(fd, "", 0, 0));
    polled.events = POLLIN;
    printf("poll %d\n", poll(&polled, 1, 20));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    ask(fd, LATE, 20);
    printf("select %d\n", select(fd + 1, &set, NULL, NULL, NULL));
    printf("read %zd\n", read(fd, buffer, sizeof buffer));
}

static void half(int fd) {
    char buffer[16];
    ask(fd, HALF, 0);
    printf("half %zu %.4s\n", receive_all(fd, buffer, 4), buffer);
    printf("end %zd\n", recv(fd, buffer, 1, 0));
    ask(fd, ECHO, 3);
    printf("send %zd\n", send(fd, "abc", 3, MSG_NOSIGNAL));
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLRDHUP};
    printf("poll %d %x\n", poll(&polled, 1, 1000), polled.revents & (POLLIN | POLLRDHUP));
    printf("end %zd\n", recv(fd, buffer, 1, 0));
}

static void own_half(int fd) {
    char buffer[16];
    ask(fd, LATE, 50);
    printf("shutdown %d\n", shutdown(fd, SHUT_WR));
    say_count("send", send(fd, "x", 1, MSG_NOSIGNAL));
    printf("late %zu\n", receive_all(fd, buffer, 4));
    printf("end %zd\n", recv(fd, buffer, 1, 0));
}

// The server closes with octets that it has not read.
static void unread(int fd) {
    char buffer[16];
    struct request both[2] = {{CLOSE_UNREAD, 50}, {ECHO, 1}};
    send_all(fd, both, sizeof both);
    printf("bye %zu\n", receive_all(fd, buffer, 3));
    say_count("then", recv(fd, buffer, 1, 0));
    say_count("send", send(fd, "x", 1, MSG_NOSIGNAL));
}

static void closed(int fd) {
    char buffer[16];
    ask(fd, CLOSE_UNREAD, 20);
    printf("bye %zu\n", receive_all(fd, buffer, 3));
    printf("end %zd\n", recv(fd, buffer, 1, 0));
    printf("send %zd\n", send(fd, "x", 1, MSG_NOSIGNAL));
    pause_msec(20);
    say_count("again", send(fd, "x", 1, MSG_NOSIGNAL));
}

static void death(int fd) {
    char buffer[16];
    ask(fd, DIE, 20);
    struct pollfd polled = {.fd = fd, .events = POLLIN | POLLRDHUP};
    printf("poll %d\n", poll(&polled, 1, 2000));
    printf("last %zu %.4s\n", receive_all(fd, buffer, 4), buffer);
    polled.revents = 0;
    printf("poll %d %x\n", poll(&polled, 1, 2000), polled.revents);
    printf("end %zd\n", recv(fd, buffer, 1, 0));
}

// The server is killed with octets that it has not read.
static void death_unread(int fd) {
    char buffer[1000] = {0};
    ask(fd, DIE, 100);
    pause_msec(30);
    send_all(fd, buffer, sizeof buffer);
    printf("last %zu %.4s\n", receive_all(fd, buffer, 4), buffer);
    say_count("reset", recv(fd, buffer, 1, 0));
    say_count("end", recv(fd, buffer, 1, 0));
    say_count("send", send(fd, "x", 1, MSG_NOSIGNAL));
}

// The same, seen by a call that sends, before what the server has said is read.
static void death_seen_by_sender(int fd) {
    char buffer[1000] = {0};
    ask(fd, DIE, 100);
    pause_msec(30);
    send_all(fd, buffer, sizeof buffer);
    pause_msec(250);
    say_count("reset", send(fd, "x", 1, MSG_NOSIGNAL));
    say_count("send", send(fd, "x", 1, MSG_NOSIGNAL));
    printf("last %zu %.4s\n", receive_all(fd, buffer, 4), buffer);
    say_count("end", recv(fd, buffer, 1, 0));
}

static int32_t server_pid(int fd) {
    int32_t pid = 0;
    ask(fd, WHO, 0);
    receive_all(fd, &pid, sizeof pid);
    return pid;
}

static void *lets_it_go_on(void *pid) {
    pause_msec(400);
    kill((pid_t)(intptr_t)pid, SIGCONT);
    return NULL;
}

static pthread_t stop_a_while(int32_t pid) {
    pthread_t thread;
    kill(pid, SIGSTOP);
    pthread_create(&thread, NULL, lets_it_go_on, (void *)(intptr_t)pid);
    return thread;
}

// The server is stopped while the connection goes to the kernel, with octets that nobody has read.
static void stopped(int fd) {
    char buffer[4];
    int32_t pid = server_pid(fd);
    ask(fd, LATE, 0);
    pause_msec(30);
    pthread_t thread = stop_a_while(pid);
    printf("shutdown %d\n", shutdown(fd, SHUT_WR));
    printf("late %zu %.4s\n", receive_all(fd, buffer, 4), buffer);
    say_count("end", recv(fd, buffer, 1, 0));
    pthread_join(thread, NULL);
}

// The same with octets that it has not read.
static void stopped_behind(int fd) {
    static char buffer[8000];
    const uint32_t total = 800000;
    uint64_t position = 0;
    int32_t pid = server_pid(fd);
    pthread_t thread = 0;
    ask(fd, SINK, total);
    while (position < total) {
        for (size_t i = 0; i < sizeof buffer; i++)
            buffer[i] = (char)octet(position++);
        if (position == total / 2)
            thread = stop_a_while(pid);
        send_all(fd, buffer, sizeof buffer);
    }
    shutdown(fd, SHUT_WR);
    char answer = '-';
    printf("answer %zu", receive_all(fd, &answer, 1));
    printf(" %c\n", answer);
    pthread_join(thread, NULL);
}

static void *forks(void *nothing) {
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i % 2)
                execl("/bin/true", "true", NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        pause_msec(3);
    }
    return nothing;
}

// Children come and go, and programs are executed, while octets go both ways.
static void busy_forks(int fd) {
    uint64_t position = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, forks, NULL);
    for (int i = 0; i < 400; i++)
        echo(fd, 1 + (size_t)i * 7 % 4000, &position);
    pthread_join(thread, NULL);
    printf("echoes right\n");
}

// Memory that the processes share, spoiled at random: its process is the last to be asked whether it survives that.
static struct {
    uint64_t seed;
    volatile int is_over;
} spoiling;

static void spoil(uint8_t *arena, size_t len) {
    uint64_t random = spoiling.seed;
    while (!spoiling.is_over) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        // The doorbells, or the lines that writers and readers have, or the octets.
        size_t slot = random >> 8 & 3, offset = 0;
        slot = random >> 10 & 1 ? slot : 512 + slot;
        size_t at_slot = 8192 + slot * (4096 + 2 * 65536);
        switch (random & 7) {
        case 0:
            offset = (random >> 16) % 8192;
            break;
        case 1:
            offset = at_slot + (random >> 16) % (4096 + 2 * 65536);
            break;
        default:
            offset = at_slot + (random >> 16) % 256;
        }
        offset &= ~7ull;
        if (offset + 8 > len)
            continue;
        uint64_t *word = (uint64_t *)(arena + offset);
        switch (random >> 4 & 7) {
        case 0:
            __atomic_store_n(word, random, __ATOMIC_RELAXED);
            break;
        case 1:
            __atomic_store_n(word, random >> 60, __ATOMIC_RELAXED);
            break;
        case 2:
            __atomic_fetch_xor(word, 1ull << 63, __ATOMIC_RELAXED);
            break;
        case 3:
            __atomic_fetch_add(word, (random >> 40 & 0xffff) - 0x8000, __ATOMIC_RELAXED);
            break;
        case 4:
            __atomic_fetch_add(word, 1ull << 32, __ATOMIC_RELAXED);
            break;
        default:
            __atomic_fetch_add(word, (random >> 40 & 3) - 1, __ATOMIC_RELAXED);
        }
        if ((random >> 50 & 63) == 0)
            pause_msec(1);
    }
    _exit(0);
}

static void *spoils(void *nothing) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:vma-streams") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
            printf("spoils\n");
            fflush(stdout);
            spoil((uint8_t *)from, to - from);
        }
    printf("no memory is shared\n");
    exit(1);
    return nothing;
}

// Whatever comes of it: the server is to live on, and other clients see nothing of it. The seed is in the environment.
static void hostile(int fd) {
    static char buffer[70000];
    pthread_t thread;
    const char *seed = getenv("SEED");
    spoiling.seed = 0x9e3779b97f4a7c15ull * (uint64_t)(1 + (seed ? atoi(seed) : 0));
    pthread_create(&thread, NULL, spoils, NULL);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    getpeername(fd, (void *)&peer, &len);
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        struct timeval time = {0, 2000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
        for (int i = 0; i < 100; i++) {
            struct request request = {ECHO, 1 + (uint32_t)i * 331 % 3000};
            if (send(fd, &request, sizeof request, MSG_NOSIGNAL) < 0 || send(fd, buffer, request.count, MSG_NOSIGNAL) < 0 ||
                recv(fd, buffer, sizeof buffer, 0) <= 0)
                break;
        }
        close(fd);
        fd = at_port(ntohs(peer.sin_port), &peer);
        if (connect(fd, (void *)&peer, sizeof peer) != 0)
            break;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec < 3);
    spoiling.is_over = 1;
    pthread_join(thread, NULL);
}

// A child has the connection, too, and goes on with it.
static void forked(int fd) {
    uint64_t position = 0;
    pid_t child = fork();
    if (child == 0) {
        echo(fd, 1000, &position);
        printf("child right\n");
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    echo(fd, 1000, &position);
    printf("parent right %d\n", status);
}

static void out_of_band(int fd) {
    printf("urgent %zd\n", send(fd, "!", 1, MSG_OOB));
    int mark = 7;
    int asked = ioctl(fd, SIOCATMARK, &mark);
    printf("mark %d %d\n", asked, mark);
}

// The connection is there until the standard input ends.
static void stays(int fd) {
    uint64_t position = 400;
    printf("ready\n");
    fflush(stdout);
    char letter;
    while (read(STDIN_FILENO, &letter, 1) > 0)
        ;
    echo(fd, 100, &position);
    printf("stayed\n");
}

static const struct {
    const char *name;
    void (*run)(int fd);
} cases[] = {
    {"echoes", echoes}, {"bulk", bulk},     {"events", events}, {"edges", edges},
    {"semantics", semantics}, {"half", half}, {"own_half", own_half}, {"unread", unread},
    {"closed", closed}, {"death", death},   {"forked", forked}, {"out_of_band", out_of_band},
    {"stays", stays},       {"death_unread", death_unread}, {"death_seen_by_sender", death_seen_by_sender},
    {"stopped", stopped},   {"stopped_behind", stopped_behind}, {"busy_forks", busy_forks}, {"hostile", hostile},
};

int main(int argc, char **argv) {
    only_echoes = getenv("ONLY_ECHOES") != NULL;
    if (argc >= 2 && strcmp(argv[1], "serve") == 0)
        serve();
    if (argc < 4)
        return 2;
    alarm(50);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[3]) != 0)
            continue;
        struct sockaddr_in address;
        int fd = at_port(atoi(argv[2]), &address), on = 1;
        if (connect(fd, (void *)&address, sizeof address) != 0)
            fail("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        warm(fd);
        cases[i].run(fd);
        close(fd);
        return 0;
    }
    return 2;
}
