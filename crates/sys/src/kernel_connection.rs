//! What the kernel says of a connection that another stack is to go on with (`TCP_REPAIR`; CRIU's
//! `soccr` asks the same).

use libc::c_int;

use crate::streams::{self, RepairQueue};
use crate::{Errno, option_int, poll_one, set_listener_filter};

/// Numbers and options of an established connection, as `TCP_REPAIR` gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelConnection {
    /// The next sequence number that is sent (`TCP_QUEUE_SEQ` of the send queue).
    pub snd_nxt: u32,
    /// The next that is expected (that of the receive queue).
    pub rcv_nxt: u32,
    /// `struct tcp_repair_window`: `snd_wl1`, `snd_wnd`, `max_window`, `rcv_wnd`, `rcv_wup`.
    pub window: [u32; 5],
    /// The MSS that the peer announced, or less.
    pub peer_mss: u16,
    /// Of what is sent and of what is received; `None` if there is no scaling.
    pub window_scales: Option<(u8, u8)>,
    pub has_sack: bool,
    pub has_ecn: bool,
    /// `TSval` at this time; `None` without timestamps.
    pub timestamp: Option<u32>,
}

// kernel `include/uapi/linux/tcp.h`
const TCPI_OPT_TIMESTAMPS: u8 = 1;
const TCPI_OPT_SACK: u8 = 2;
const TCPI_OPT_WSCALE: u8 = 4;
const TCPI_OPT_ECN: u8 = 8;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake is under way.
    Begins,
    /// Established, and nothing is on its way or waits to be read.
    IsQuiet,
    /// Established, otherwise.
    IsBusy,
    /// It ends, has ended or was never there.
    Ends,
}

// kernel `include/net/tcp_states.h`
const TCP_ESTABLISHED: u8 = 1;
const TCP_SYN_SENT: u8 = 2;
const TCP_SYN_RECV: u8 = 3;

/// How far the connection of a socket is.
pub fn progress(fd: c_int) -> Progress {
    match streams::state(fd) {
        Some(TCP_ESTABLISHED) => {}
        Some(TCP_SYN_SENT | TCP_SYN_RECV) => return Progress::Begins,
        _ => return Progress::Ends,
    }
    let asked = libc::POLLPRI | libc::POLLRDHUP;
    match poll_one(fd, asked) {
        Ok(0) if streams::readable_len(fd) == 0 && unacknowledged_len(fd) == Some(0) => {
            Progress::IsQuiet
        }
        _ => Progress::IsBusy,
    }
}

/// How much is not acknowledged, or not sent (`SIOCOUTQ`).
fn unacknowledged_len(fd: c_int) -> Option<usize> {
    let mut len: c_int = 0;
    // SAFETY: the kernel writes an int there.
    let asked = unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ, &raw mut len) };
    (asked == 0).then(|| usize::try_from(len).ok()).flatten()
}

/// The connection of a socket that is under repair and [quiet](Progress::IsQuiet).
pub fn kernel_connection(fd: c_int) -> Result<KernelConnection, Errno> {
    let mut info = [0; 8];
    let len = streams::option_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let [_, _, _, _, _, options, scales, _] = info;
    if len < info.len() {
        return Err(Errno(libc::EPROTO));
    }
    let has = |flag| options & flag != 0;
    let tcp_option = |name| option_int(fd, libc::IPPROTO_TCP, name);
    let number = |queue| {
        streams::choose_queue(fd, queue)?;
        tcp_option(libc::TCP_QUEUE_SEQ).map(c_int::cast_unsigned)
    };
    let mut bytes = [0; 20];
    let window = libc::TCP_REPAIR_WINDOW;
    if streams::option_bytes(fd, libc::IPPROTO_TCP, window, &mut bytes)? != bytes.len() {
        return Err(Errno(libc::EPROTO));
    }
    let mut window = [0; 5];
    for (word, bytes) in window.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes.try_into().map_or(0, u32::from_ne_bytes);
    }
    Ok(KernelConnection {
        window,
        // Under repair the peer's, not that which is used.
        peer_mss: u16::try_from(tcp_option(libc::TCP_MAXSEG)?).unwrap_or(u16::MAX),
        window_scales: has(TCPI_OPT_WSCALE).then_some((scales & 0xf, scales >> 4)),
        has_sack: has(TCPI_OPT_SACK),
        has_ecn: has(TCPI_OPT_ECN),
        timestamp: match has(TCPI_OPT_TIMESTAMPS) {
            // The lowest bit says its unit: 0 is milliseconds, and the value may be one more. What
            // was sent last must not be later than what is sent next (RFC 7323 §5).
            true => Some(tcp_option(libc::TCP_TIMESTAMP)?.cast_unsigned() | 1),
            false => None,
        },
        snd_nxt: number(RepairQueue::Send)?,
        // Last: whoever asks sees by it that nothing has come meanwhile.
        rcv_nxt: number(RepairQueue::Receive)?,
    })
}

/// Has the kernel drop all that comes for a socket, as if it were lost on the way, or take it
/// again.
pub fn lose_all(fd: c_int, loses: bool) -> Result<(), Errno> {
    if !loses {
        return set_listener_filter(fd, &[]);
    }
    const RETURN: u16 = 6;
    let mut nothing = libc::sock_filter {
        code: RETURN,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let filter = libc::sock_fprog {
        len: 1,
        filter: &raw mut nothing,
    };
    streams::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}
