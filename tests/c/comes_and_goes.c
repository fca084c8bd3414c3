/* comes_and_goes <ip> <port>: has a socket, after an octet of the standard input none, after another one again, and so on. */
#include "case.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (;;) {
        char octet;
        int fd = bound_to(argv[1], atoi(argv[2]));
        printf("ready\n");
        fflush(stdout);
        if (read(0, &octet, 1) != 1)
            return 0;
        MUST(close(fd));
        if (read(0, &octet, 1) != 1)
            return 0;
    }
}
