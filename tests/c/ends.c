// How a process ends whose threads end one by one, or are killed by a filter of system calls.
//
//   ends <how> <address> <port>
//
// Receives a datagram first, so that a library in it is at work.
#include "case.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// Every other call is allowed.
static void forbid(int number, unsigned action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void *ends_later(void *unused)
{
    sleep_msec(300);
    printf("the thread ends\n");
    return unused;
}

static void *exits_later(void *unused)
{
    sleep_msec(300);
    exit(5);
    return unused;
}

static void at_exit(void) { printf("exit handler\n"); }

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    alarm(20);
    setvbuf(stdout, NULL, _IOLBF, 0);
    atexit(at_exit);
    const char *how = argv[1];
    if (strcmp(how, "inherited") == 0) {
        forbid(SYS_bpf, SECCOMP_RET_KILL_PROCESS);
        execl("/proc/self/exe", "ends", "receives", argv[2], argv[3], NULL);
    }
    if (strcmp(how, "inherited_optional") == 0) {
        forbid(SYS_getrusage, SECCOMP_RET_KILL_PROCESS);
        forbid(SYS_sched_setscheduler, SECCOMP_RET_TRAP);
        execl("/proc/self/exe", "ends", "receives", argv[2], argv[3], NULL);
    }
    int fd = bound_to(argv[2], atoi(argv[3]));
    printf("ready\n");
    char data[100];
    say("recv", recv(fd, data, sizeof data, 0));
    pthread_t thread;
    if (strcmp(how, "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(how, "thread_last") == 0) {
        MUST(-pthread_create(&thread, NULL, ends_later, NULL));
        pthread_exit(NULL);
    }
    if (strcmp(how, "thread_exits") == 0) {
        MUST(-pthread_create(&thread, NULL, exits_later, NULL));
        pthread_exit(NULL);
    }
    if (strcmp(how, "exit_of_thread") == 0)
        syscall(SYS_exit, 3);
    if (strcmp(how, "killed_thread") == 0) {
        forbid(SYS_getppid, SECCOMP_RET_KILL_THREAD);
        getppid();
    }
    if (strcmp(how, "killed_process") == 0) {
        forbid(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
        getppid();
    }
    if (strcmp(how, "killed_while_polling") == 0) {
        // A thread that polls asks how often it was interrupted, which is deadly, if it has not seen the filter.
        forbid(SYS_getrusage, SECCOMP_RET_KILL_THREAD);
        struct pollfd polled = {fd, POLLIN, 0};
        say("poll", poll(&polled, 1, 700));
    }
    if (strcmp(how, "trapped") == 0) {
        forbid(SYS_getppid, SECCOMP_RET_TRAP);
        getppid();
    }
    if (strcmp(how, "strict") == 0) {
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
        MUST(write(1, "strict\n", 7));
        syscall(SYS_exit, 7);
    }
    if (strcmp(how, "strict_kill") == 0) {
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
        MUST(write(1, "strict\n", 7));
        getppid();
    }
    printf("returns\n");
    return 4;
}
