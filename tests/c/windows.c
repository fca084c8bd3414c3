/* Both ends of a ping-pong in windows of time: "echo ADDRESS PORT" answers every datagram, "ask ADDRESS PORT MILLISECONDS" plays
   for that long after each line of standard input, and prints the median round trip in nanoseconds. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "times.h"

#define MOST 1000000
static long times[MOST];

int main(int argc, char **argv) {
    if (argc < 4)
        return 2;
    int is_echo = strcmp(argv[1], "echo") == 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))}, from;
    inet_pton(AF_INET, argv[2], &address.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if ((is_echo ? bind : connect)(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("address");
    char buffer[64] = "ping", line[16];
    puts("ready");
    fflush(stdout);
    while (is_echo) {
        socklen_t len = sizeof from;
        ssize_t got = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &len);
        if (got < 0 || sendto(fd, buffer, got, 0, (struct sockaddr *)&from, len) != got)
            die("echo");
    }
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (fgets(line, sizeof line, stdin)) {
        long end = now() + atol(argv[4]) * 1000000L;
        int count = 0;
        for (long before = now(); before < end && count < MOST; count++) {
            if (send(fd, buffer, sizeof buffer, 0) != sizeof buffer || recv(fd, buffer, sizeof buffer, 0) != sizeof buffer)
                die("ask");
            long after = now();
            times[count] = after - before;
            before = after;
        }
        qsort(times, count, sizeof *times, by_size);
        printf("median %ld of %d\n", times[count / 2], count);
        fflush(stdout);
    }
    return 0;
}
