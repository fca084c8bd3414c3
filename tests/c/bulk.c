// Sends numbered datagrams without a pause, then waits for its input to end.
// Arguments: peer's address, port, how many.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &peer.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0) {
        perror("connect");
        return 1;
    }
    // Until the peer's hardware address is known, datagrams go through the kernel.
    uint32_t warm = UINT32_MAX;
    for (int i = 0; i < 10; i++) {
        send(fd, &warm, sizeof warm, 0);
        usleep(20 * 1000);
    }
    uint32_t count = strtoul(argv[3], NULL, 10);
    for (uint32_t number = 0; number < count; number++)
        if (send(fd, &number, sizeof number, 0) != sizeof number) {
            perror("send");
            return 1;
        }
    puts("sent");
    fflush(stdout);
    char end;
    return read(STDIN_FILENO, &end, 1) == 0 ? 0 : 1;
}
