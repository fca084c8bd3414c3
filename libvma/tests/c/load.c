/* A load generator: keeps a number of questions under way for a while and says how many answers came each second.
 *
 *   load udp|tcp <ip> <port> <seconds> <sockets> <window> <question> <bytes of an answer>
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

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: load udp|tcp|sink <ip> <port> <seconds> <sockets> <window> <question> <bytes>\n");
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

    if (count < 1 || count > SOCKETS_MAX || answer_len == 0)
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
            for (int n = 0; n < window; n++)
                (void)!send(polled[i].fd, question, len, 0);
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
                heard[i] = now;
                got[i] += stream ? (size_t)received : answer_len;
                for (; got[i] >= answer_len; got[i] -= answer_len) {
                    answers++;
                    (void)!send(polled[i].fd, question, len, 0);
                }
            }
        }
    }
    printf("%.0f\n", (double)answers / (now - begun));
    return answers == 0;
}
