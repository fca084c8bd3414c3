/* probe <ip> <port>: does on one bound socket what its standard input says, a line each, and says the result.
 *   send <ip> <port>   sends a datagram
 *   recv               receives a datagram that comes
 *   silence            receives what does not come within 300 ms
 *   drain              receives what is there or comes within 300 ms, and says nothing */
#include "case.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int fd = bound_to(argv[1], atoi(argv[2])), port;
    char line[100], ip[64], buffer[2048];
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    for (int number = 1; fgets(line, sizeof line, stdin); number++) {
        printf("%d ", number);
        if (sscanf(line, "send %63s %d", ip, &port) == 2) {
            struct sockaddr_in to = address(ip, port);
            say("send", sendto(fd, "probe", 5, 0, generic(&to), sizeof to));
        } else if (strncmp(line, "drain", 5) == 0) {
            set_timeout(fd, 300);
            while (recv(fd, buffer, sizeof buffer, 0) >= 0 || errno == ECONNREFUSED) {
            }
            printf("drained\n");
        } else {
            set_timeout(fd, strncmp(line, "recv", 4) == 0 ? 20000 : 300);
            say("recv", recv(fd, buffer, sizeof buffer, 0));
        }
        printf("%d done\n", number);
    }
    return 0;
}
