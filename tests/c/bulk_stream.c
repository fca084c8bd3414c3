// Sends a stream whose octets say where they are, as fast as it goes, and waits for the peer's answer: how many have come.
// Arguments: peer's address, port, megabytes, octets of a write. Says "half" in the middle, and waits for a line then.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &peer.sin_addr);
    uint64_t total = strtoull(argv[3], NULL, 10) << 20, len = strtoull(argv[4], NULL, 10);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0) {
        perror("connect");
        return 1;
    }
    // The octet at n is n modulo 251, a prime: it shows what was left out, repeated or exchanged.
    unsigned char *data = malloc(len + 251);
    for (uint64_t i = 0; i < len + 251; i++)
        data[i] = i % 251;
    int halves = 0;
    for (uint64_t sent = 0; sent < total;) {
        if (!halves && sent >= total / 2) {
            halves = 1;
            puts("half");
            fflush(stdout);
            char line[8];
            if (!fgets(line, sizeof line, stdin))
                return 1;
        }
        uint64_t now = total - sent < len ? total - sent : len;
        ssize_t done = send(fd, data + sent % 251, now, 0);
        if (done <= 0) {
            perror("send");
            return 1;
        }
        sent += done;
    }
    shutdown(fd, SHUT_WR);
    uint64_t came = 0;
    if (recv(fd, &came, sizeof came, MSG_WAITALL) != sizeof came || came != total) {
        fprintf(stderr, "%llu of %llu octets came\n", (unsigned long long)came, (unsigned long long)total);
        return 1;
    }
    puts("all");
    fflush(stdout);
    // The statistics are read meanwhile.
    return getchar() == EOF ? 0 : 1;
}
