/* Stands behind the library as if it were the C library: while `null_calls_on` is set, calls return 0 at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int null_calls_on;

#define NULL_CALL(type, name, parameters, arguments)                                                                   \
    type name parameters                                                                                               \
    {                                                                                                                  \
        static type(*next) parameters;                                                                                 \
        if (null_calls_on)                                                                                             \
            return 0;                                                                                                  \
        if (!next)                                                                                                     \
            next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                                                        \
        return next arguments;                                                                                         \
    }

/* Their third argument comes in the same register whether it is variadic or not. */
#define NULL_VARIADIC(name, first, second)                                                                             \
    int name(first a, second b, ...)                                                                                   \
    {                                                                                                                  \
        static int (*next)(first, second, ...);                                                                        \
        if (null_calls_on)                                                                                             \
            return 0;                                                                                                  \
        if (!next)                                                                                                     \
            next = (int (*)(first, second, ...))dlsym(RTLD_NEXT, #name);                                               \
        va_list rest;                                                                                                  \
        va_start(rest, b);                                                                                             \
        void *third = va_arg(rest, void *);                                                                            \
        va_end(rest);                                                                                                  \
        return next(a, b, third);                                                                                      \
    }

NULL_CALL(ssize_t, read, (int fd, void *buffer, size_t len), (fd, buffer, len))
NULL_CALL(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
NULL_CALL(ssize_t, recv, (int fd, void *buffer, size_t len, int flags), (fd, buffer, len, flags))
NULL_CALL(ssize_t, recvfrom, (int fd, void *buffer, size_t len, int flags, struct sockaddr *from, socklen_t *from_len),
          (fd, buffer, len, flags, from, from_len))
NULL_CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
NULL_CALL(int, recvmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout),
          (fd, messages, count, flags, timeout))
NULL_CALL(ssize_t, preadv2, (int fd, const struct iovec *parts, int count, off_t offset, int flags),
          (fd, parts, count, offset, flags))

NULL_CALL(ssize_t, write, (int fd, const void *buffer, size_t len), (fd, buffer, len))
NULL_CALL(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
NULL_CALL(ssize_t, send, (int fd, const void *buffer, size_t len, int flags), (fd, buffer, len, flags))
NULL_CALL(ssize_t, sendto, (int fd, const void *buffer, size_t len, int flags, const struct sockaddr *to, socklen_t to_len),
          (fd, buffer, len, flags, to, to_len))
NULL_CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
NULL_CALL(int, sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), (fd, messages, count, flags))
NULL_CALL(ssize_t, splice, (int from, off64_t *from_offset, int to, off64_t *to_offset, size_t len, unsigned flags),
          (from, from_offset, to, to_offset, len, flags))

NULL_CALL(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
NULL_CALL(int, ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
          (fds, count, timeout, mask))
NULL_CALL(int, select, (int count, fd_set *read, fd_set *write, fd_set *except, struct timeval *timeout),
          (count, read, write, except, timeout))
NULL_CALL(int, pselect,
          (int count, fd_set *read, fd_set *write, fd_set *except, const struct timespec *timeout, const sigset_t *mask),
          (count, read, write, except, timeout, mask))
NULL_CALL(int, epoll_ctl, (int epfd, int operation, int fd, struct epoll_event *event), (epfd, operation, fd, event))
NULL_CALL(int, epoll_wait, (int epfd, struct epoll_event *events, int max, int timeout), (epfd, events, max, timeout))
NULL_CALL(int, epoll_pwait, (int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask),
          (epfd, events, max, timeout, mask))

NULL_CALL(int, close, (int fd), (fd))
NULL_CALL(int, dup, (int fd), (fd))
NULL_CALL(int, dup2, (int old, int new), (old, new))
NULL_CALL(int, eventfd, (unsigned count, int flags), (count, flags))
NULL_CALL(int, pipe, (int fds[2]), (fds))
NULL_CALL(int, accept, (int fd, struct sockaddr *address, socklen_t *len), (fd, address, len))
NULL_VARIADIC(open, const char *, int)
NULL_VARIADIC(fcntl, int, int)

NULL_CALL(int, bind, (int fd, const struct sockaddr *address, socklen_t len), (fd, address, len))
NULL_CALL(int, connect, (int fd, const struct sockaddr *address, socklen_t len), (fd, address, len))
NULL_CALL(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len), (fd, level, name, value, len))
NULL_CALL(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *len), (fd, level, name, value, len))
NULL_CALL(int, getsockname, (int fd, struct sockaddr *address, socklen_t *len), (fd, address, len))
NULL_CALL(int, shutdown, (int fd, int how), (fd, how))
NULL_VARIADIC(ioctl, int, unsigned long)
