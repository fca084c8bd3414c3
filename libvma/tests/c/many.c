/* What many UDP sockets cost: `many COUNT reuse|plain`. Says microseconds of CPU time to open them, and per second while nothing happens. */
#include "case.h"

static double cpu_usec(void)
{
    struct rusage usage;
    MUST(getrusage(RUSAGE_SELF, &usage));
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, reuse = argc > 2 && strcmp(argv[2], "reuse") == 0, on = 1;
    struct rlimit limit = {(rlim_t)count + 2000, (rlim_t)count + 2000};
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    /* What opening the interface costs is not looked at. */
    int first = bound();
    sleep_msec(500);
    double begun = cpu_usec();
    for (int i = 0; i < count; i++) {
        int fd = udp();
        struct sockaddr_in self = address(SELF, 10000 + i);
        if (reuse)
            MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
        MUST(bind(fd, generic(&self), sizeof self));
    }
    double opened = cpu_usec();
    sleep_msec(1000);
    double settled = cpu_usec();
    sleep_msec(2000);
    printf("%.0f %.0f\n", opened - begun, (cpu_usec() - settled) / 2);
    return close(first);
}
