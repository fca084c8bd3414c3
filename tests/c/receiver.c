/* receiver <ip> <port>: says the length, the bytes' hash and the sender of every datagram, until one says "end". */
#include "case.h"
#include <stdint.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    static unsigned char buffer[70000];
    int fd = bound_to(argv[1], atoi(argv[2])), size = 212992;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    for (;;) {
        struct sockaddr_in from;
        char ip[INET_ADDRSTRLEN] = "?";
        socklen_t from_len = sizeof from;
        ssize_t len = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        MUST(len);
        uint32_t hash = 0x811c9dc5;
        for (ssize_t i = 0; i < len; i++)
            hash = (hash ^ buffer[i]) * 0x01000193;
        inet_ntop(AF_INET, &from.sin_addr, ip, sizeof ip);
        printf("%zd %08x %s:%d %.*s\n", len, hash, ip, ntohs(from.sin_port), (int)strnlen((char *)buffer, len < 40 ? (size_t)len : 40), buffer);
        if (len == 3 && memcmp(buffer, "end", 3) == 0)
            return 0;
    }
}
