/* probe <ip> <port>: does on one bound socket what its standard input says, a line each, and says the result.
 *   send <ip> <port>   sends a datagram
 *   recv               receives within 300 ms
 *   drain              receives what is there, and says nothing */
#include "case.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int fd = bound_to(argv[1], atoi(argv[2])), port;
    char line[100], ip[64], buffer[2048];
    setvbuf(stdout, NULL, _IOLBF, 0);
    set_timeout(fd, 300);
    printf("ready\n");
    for (int number = 1; fgets(line, sizeof line, stdin); number++) {
        printf("%d ", number);
        if (sscanf(line, "send %63s %d", ip, &port) == 2) {
            struct sockaddr_in to = address(ip, port);
            say("send", sendto(fd, "probe", 5, 0, generic(&to), sizeof to));
        } else if (strncmp(line, "recv", 4) == 0) {
            say("recv", recv(fd, buffer, sizeof buffer, 0));
        } else {
            while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) >= 0 || errno == ECONNREFUSED) {
            }
            printf("drained\n");
        }
        printf("%d done\n", number);
    }
    return 0;
}
