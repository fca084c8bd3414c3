/* A load generator: keeps a number of questions under way for a while and says how many answers came each second.
 *
 *   load udp|tcp <ip> <port> <seconds> <sockets> <window> <question> <bytes of an answer> [p99]
 *
 * With p99 it also says in how many microseconds 99 of 100 answers came; answers of a socket are taken to come in the order of
 * their questions.
 *
 * Each socket has `window` questions under way. In the question, \xHH is a byte. A datagram is an answer; on TCP the
 * bytes are counted. What is lost is asked again after a tenth of a second of silence. "sink" instead of "udp" waits for
 * no answers and sends `window` datagrams every millisecond. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS_MAX 64
#define WINDOW_MAX 512
#define LATENCY_MAX_USEC 1000000

/* When the questions under way of a socket were asked: a ring. */
struct asked {
    double at[WINDOW_MAX];
    unsigned first, count;
};

static struct asked asked[SOCKETS_MAX];
static uint32_t latencies[LATENCY_MAX_USEC + 1];

static double now_sec(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static size_t unescape(char *text)
{
    char *to = text;
    unsigned byte;
    for (const char *from = text; *from; to++) {
        if (sscanf(from, "\\x%2x", &byte) == 1) {
            *to = (char)byte;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    return (size_t)(to - text);
}

static void ask(int fd, int index, const char *question, size_t len, double now)
{
    struct asked *times = &asked[index];
    times->at[(times->first + times->count) % WINDOW_MAX] = now;
    times->count += times->count < WINDOW_MAX;
    (void)!send(fd, question, len, 0);
}

static void answered(int index, double now)
{
    struct asked *times = &asked[index];
    if (times->count == 0)
        return;
    double usec = (now - times->at[times->first]) * 1e6;
    times->first = (times->first + 1) % WINDOW_MAX;
    times->count--;
    latencies[usec < LATENCY_MAX_USEC ? (unsigned)usec : LATENCY_MAX_USEC]++;
}

static unsigned p99_usec(uint64_t answers)
{
    uint64_t seen = 0;
    unsigned usec = 0;
    while (usec < LATENCY_MAX_USEC && (seen += latencies[usec]) * 100 < answers * 99)
        usec++;
    return usec;
}

int main(int argc, char **argv)
{
    int percentile = argc == 10 && strcmp(argv[9], "p99") == 0;
    if (argc != 9 && !percentile) {
        fprintf(stderr, "usage: load udp|tcp|sink <ip> <port> <seconds> <sockets> <window> <question> <bytes> [p99]\n");
        return 2;
    }
    int stream = strcmp(argv[1], "tcp") == 0, sink = strcmp(argv[1], "sink") == 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    inet_pton(AF_INET, argv[2], &to.sin_addr);
    double seconds = atof(argv[4]);
    int count = atoi(argv[5]), window = atoi(argv[6]);
    char *question = argv[7];
    size_t len = unescape(question), answer_len = (size_t)atoi(argv[8]);
    static char buffer[65536];
    struct pollfd polled[SOCKETS_MAX];
    size_t got[SOCKETS_MAX] = {0};
    double heard[SOCKETS_MAX];

    if (count < 1 || count > SOCKETS_MAX || window < 1 || window > WINDOW_MAX || answer_len == 0)
        return 2;
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_INET, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
            perror("connect");
            return 1;
        }
        polled[i] = (struct pollfd){fd, POLLIN, 0};
        heard[i] = 0;
    }
    double begun = now_sec(), now = begun;
    uint64_t answers = 0;
    for (; now < begun + seconds; now = now_sec()) {
        if (sink) {
            for (int n = 0; n < window; n++)
                answers += send(polled[0].fd, question, len, 0) > 0;
            struct timespec pause = {0, 1000000};
            nanosleep(&pause, NULL);
            continue;
        }
        for (int i = 0; i < count; i++) {
            if (heard[i] > 0 && (stream || now < heard[i] + 0.1))
                continue;
            /* Those that were lost count for no latency. */
            asked[i].count = 0;
            for (int n = 0; n < window; n++)
                ask(polled[i].fd, i, question, len, now);
            heard[i] = now;
        }
        if (poll(polled, (nfds_t)count, 20) <= 0)
            continue;
        for (int i = 0; i < count; i++) {
            if (polled[i].revents == 0)
                continue;
            /* At most as much as was there, so that every socket has its turn. */
            for (int n = 0; n < window; n++) {
                ssize_t received = recv(polled[i].fd, buffer, sizeof buffer, MSG_DONTWAIT);
                if (received <= 0) {
                    if (stream && (received == 0 || errno != EAGAIN)) {
                        printf("the server hung up\n");
                        return 1;
                    }
                    break;
                }
                double then = now_sec();
                heard[i] = then;
                got[i] += stream ? (size_t)received : answer_len;
                for (; got[i] >= answer_len; got[i] -= answer_len) {
                    answers++;
                    answered(i, then);
                    ask(polled[i].fd, i, question, len, then);
                }
            }
        }
    }
    printf("%.0f", (double)answers / (now - begun));
    if (percentile)
        printf(" %u", p99_usec(answers));
    printf("\n");
    return answers == 0;
}
