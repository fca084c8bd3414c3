/* Two sockets that are not read, on ports 7411 and 7412, and one that sends back what comes, on 7413. At "end" says how many datagrams
 * wait in the two. */
#include "case.h"

static int waiting_in(int fd)
{
    char buffer[16];
    int count = 0;
    while (recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) >= 0)
        count++;
    return count;
}

int main(void)
{
    int first = bound_to(SELF, 7411), second = bound_to(SELF, 7412), read = bound_to(SELF, 7413);
    char buffer[16];
    ssize_t len;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready\n");
    do {
        struct sockaddr_in from;
        socklen_t from_len = sizeof from;
        len = recvfrom(read, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &from_len);
        MUST(len);
        MUST(sendto(read, buffer, (size_t)len, 0, generic(&from), from_len));
    } while (len != 3 || memcmp(buffer, "end", 3) != 0);
    printf("held %d %d .\n", waiting_in(first), waiting_in(second));
    return 0;
}
