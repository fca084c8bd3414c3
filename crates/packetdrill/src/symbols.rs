//! The numbers behind the names of the system's headers.

use crate::script::Expression;

macro_rules! table {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), libc::$name as i64)),*]
    };
}

/// Error numbers.
const ERRORS: &[(&str, i64)] = table![
    EACCES,
    EADDRINUSE,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    EAGAIN,
    EALREADY,
    EBADF,
    EBUSY,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EDESTADDRREQ,
    EEXIST,
    EFAULT,
    EHOSTUNREACH,
    EINPROGRESS,
    EINTR,
    EINVAL,
    EISCONN,
    EMSGSIZE,
    ENETDOWN,
    ENETUNREACH,
    ENOBUFS,
    ENOENT,
    ENOMEM,
    ENOMSG,
    ENOPROTOOPT,
    ENOTCONN,
    ENOTSOCK,
    EOPNOTSUPP,
    EPERM,
    EPIPE,
    EPROTO,
    EPROTONOSUPPORT,
    ETIMEDOUT,
];

/// Numbers that are not in `libc`, from the kernel's `include/uapi/linux` and `include/net`.
const KERNEL: &[(&str, i64)] = &[
    ("EPOLLEXCLUSIVE", 1 << 28),
    ("MSG_FASTOPEN", 0x2000_0000),
    ("MSG_ZEROCOPY", 0x400_0000),
    ("SIOCINQ", 0x541b),
    ("SIOCOUTQ", 0x5411),
    ("SIOCOUTQNSD", 0x894b),
    ("TCP_CM_INQ", 36),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_FASTOPEN_NO_COOKIE", 34),
    ("TCP_INQ", 36),
];

/// Numbers of `libc`.
const LIBC: &[(&str, i64)] = table![
    AF_INET,
    AF_INET6,
    AF_UNSPEC,
    SOCK_STREAM,
    SOCK_DGRAM,
    SOCK_NONBLOCK,
    SOCK_CLOEXEC,
    IPPROTO_TCP,
    IPPROTO_UDP,
    IPPROTO_IP,
    IPPROTO_IPV6,
    SOL_SOCKET,
    SOL_TCP,
    SOL_IP,
    SOL_IPV6,
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_SNDBUF,
    SO_RCVBUF,
    SO_RCVLOWAT,
    SO_ERROR,
    SO_KEEPALIVE,
    SO_LINGER,
    SO_OOBINLINE,
    SO_MARK,
    SO_TIMESTAMPING,
    SO_ZEROCOPY,
    SO_MAX_PACING_RATE,
    SO_RCVTIMEO,
    SO_SNDTIMEO,
    SO_PRIORITY,
    SO_ACCEPTCONN,
    SO_TYPE,
    SO_BUSY_POLL,
    TCP_NODELAY,
    TCP_MAXSEG,
    TCP_CORK,
    TCP_KEEPIDLE,
    TCP_KEEPINTVL,
    TCP_KEEPCNT,
    TCP_SYNCNT,
    TCP_LINGER2,
    TCP_DEFER_ACCEPT,
    TCP_WINDOW_CLAMP,
    TCP_INFO,
    TCP_QUICKACK,
    TCP_CONGESTION,
    TCP_MD5SIG,
    TCP_USER_TIMEOUT,
    TCP_FASTOPEN,
    TCP_FASTOPEN_CONNECT,
    TCP_FASTOPEN_KEY,
    TCP_TIMESTAMP,
    TCP_NOTSENT_LOWAT,
    TCP_REPAIR,
    TCP_SAVE_SYN,
    IP_TOS,
    IP_TTL,
    IP_MTU,
    IP_MTU_DISCOVER,
    IP_PMTUDISC_DONT,
    IP_PMTUDISC_WANT,
    IP_PMTUDISC_DO,
    IP_PMTUDISC_PROBE,
    IP_RECVERR,
    IP_FREEBIND,
    IPV6_RECVERR,
    MSG_DONTWAIT,
    MSG_PEEK,
    MSG_OOB,
    MSG_MORE,
    MSG_NOSIGNAL,
    MSG_WAITALL,
    MSG_TRUNC,
    MSG_CTRUNC,
    MSG_EOR,
    MSG_ERRQUEUE,
    SHUT_RD,
    SHUT_WR,
    SHUT_RDWR,
    F_GETFL,
    F_SETFL,
    O_RDWR,
    O_RDONLY,
    O_WRONLY,
    O_NONBLOCK,
    POLLIN,
    POLLOUT,
    POLLERR,
    POLLHUP,
    POLLPRI,
    POLLRDHUP,
    POLLNVAL,
    EPOLLIN,
    EPOLLOUT,
    EPOLLERR,
    EPOLLHUP,
    EPOLLPRI,
    EPOLLRDHUP,
    EPOLLET,
    EPOLLONESHOT,
    EPOLL_CTL_ADD,
    EPOLL_CTL_MOD,
    EPOLL_CTL_DEL,
];

/// The number that `name` stands for.
pub fn number(name: &str) -> Option<i64> {
    let mut all = ERRORS.iter().chain(LIBC).chain(KERNEL);
    let value = all.find(|(known, _)| *known == name).map(|known| known.1)?;
    // EPOLLET is the sign bit in libc.
    Some(if value < 0 {
        value & 0xffff_ffff
    } else {
        value
    })
}

/// The name of error `errno`.
pub fn error_name(errno: i32) -> String {
    let found = ERRORS
        .iter()
        .find(|(_, number)| *number == i64::from(errno));
    found.map_or_else(|| format!("errno {errno}"), |(name, _)| (*name).to_owned())
}

/// The number that an expression stands for, if it is one.
pub fn evaluate(expression: &Expression) -> Option<i64> {
    match expression {
        Expression::Integer(value) => Some(*value),
        Expression::Word(name) => number(name),
        Expression::Or(left, right) => Some(evaluate(left)? | evaluate(right)?),
        Expression::List(values) => match values.as_slice() {
            [only] => evaluate(only),
            _ => None,
        },
        _ => None,
    }
}
