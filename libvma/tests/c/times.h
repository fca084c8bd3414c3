/* For programs that say how long their round trips took. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void die(const char *what) {
    perror(what);
    exit(1);
}

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    long left = *(const long *)a, right = *(const long *)b;
    return (left > right) - (left < right);
}
