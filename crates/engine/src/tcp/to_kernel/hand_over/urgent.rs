//! Urgent data of a connection that becomes the kernel's. No repair takes the mark: what is from it
//! on comes to the kernel's socket as from the peer, on this host only, and announces it again.

use std::net::SocketAddr;
use std::time::Duration;

use ::tcp::{Flags, SeqNumber, Snapshot};
use libc::c_int;
use sys::Errno;

use super::segments::{PART_BYTES, parts_of};
use super::{octets, peers_header, put_all, say_with};
use crate::sockets::host::Host;
use crate::sockets::payload::Received;
use crate::tcp::socket::TcpStack;
use sys::streams::{self, RepairQueue};

/// How often, and how far apart, it is looked whether the kernel's socket has what was sent to it.
const LOOKS: u32 = 20;
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// What was not read, up to the mark and from there on. Without urgent data there is nothing
/// behind.
pub(super) struct Unread {
    pub(super) before: Vec<u8>,
    behind: Vec<u8>,
    /// Where `behind` begins, or would.
    middle: SeqNumber,
    /// The mark's place, and whether its octet was read.
    mark: Option<(SeqNumber, bool)>,
}

impl Unread {
    pub(super) fn of(snapshot: &Snapshot<Received>) -> Self {
        let fin = u32::from(snapshot.state.has_peer_fin());
        let end = snapshot.rcv_nxt - fin;
        let pieces: Vec<&[u8]> = snapshot.unread.iter().map(AsRef::as_ref).collect();
        let mut before = pieces.concat();
        let begin = end - octets(before.len());
        let mark = snapshot.urgent.filter(|urgent| urgent.seq >= begin);
        let mark = mark.map(|urgent| (urgent.seq, urgent.is_read));
        // One whose octet has not come yet is behind all that has.
        let middle = match mark {
            Some((at, _)) if at < end => at,
            _ => end,
        };
        let behind = before.split_off((middle - begin) as usize);
        Self {
            before,
            behind,
            middle,
            mark,
        }
    }

    /// `TCP_REPAIR_WINDOW`, for a socket that has what is before the mark only.
    pub(super) fn window(&self, mut window: [u32; 5]) -> [u32; 5] {
        let [.., room, from] = &mut window;
        if self.mark.is_some() && SeqNumber(*from) > self.middle {
            *room += SeqNumber(*from) - self.middle;
            *from = self.middle.0;
        }
        window
    }

    /// Has the socket, whose repair is over, receive the rest.
    pub(super) fn arrive<S: TcpStack>(
        &self,
        host: &Host<S>,
        fd: c_int,
        between: (SocketAddr, SocketAddr),
        snapshot: &Snapshot<Received>,
    ) -> Result<(), Errno> {
        let Some((mark, is_read)) = self.mark else {
            return Ok(());
        };
        let before = streams::received_octets(fd).unwrap_or(0);
        // Its owner has been told when it came.
        sys::without_owner(fd, || self.send(host, between, mark, snapshot));
        let has_come = || {
            let now = streams::received_octets(fd).unwrap_or(before);
            usize::try_from(now.saturating_sub(before)).unwrap_or(usize::MAX)
        };
        for _ in 0..LOOKS {
            if has_come() >= self.behind.len() {
                break;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        // What was lost on its way, by a rule of this host's perhaps, the peer would not send
        // again.
        let missing = self.behind.get(has_come()..).unwrap_or(&[]);
        if !missing.is_empty() {
            streams::repair_begins(fd)?;
            streams::choose_queue(fd, RepairQueue::Receive)?;
            put_all(fd, missing)?;
            return streams::repair_ends(fd, true);
        }
        if is_read {
            streams::take_urgent(fd);
        }
        Ok(())
    }

    fn send<S: TcpStack>(
        &self,
        host: &Host<S>,
        (local, peer): (SocketAddr, SocketAddr),
        mark: SeqNumber,
        snapshot: &Snapshot<Received>,
    ) {
        for (index, part) in parts_of(&self.behind).enumerate() {
            let seq = self.middle + octets(index * PART_BYTES);
            let mut header = peers_header(snapshot, seq, Flags::ACK);
            // The pointer is that of the octet behind the urgent one.
            if index == 0
                && let Ok(pointer) = u16::try_from(mark - seq + 1)
            {
                header.flags = Flags::ACK | Flags::URG;
                header.urgent = pointer;
            }
            // It is looked whether it came.
            let _ = say_with(host, local, peer, &header, part);
        }
    }
}
