//! Ports that several processes have together.

use dev_core::Protocol;
use rustix::fs::fstat;
use rustix::net::getsockname;

use super::*;
use crate::bpf::program::Shares;
use crate::shared::ledger::GroupChange;
use crate::table::Port;

/// A process that has not looked into its RX ring for so long, though something is there, gets no
/// new connections. Their peers try again after a second at the earliest.
const LATE: Duration = Duration::from_millis(100);

/// What a process has read of its RX rings, and since when no more than that though more is there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    read: u32,
    waits_since: Option<Instant>,
}

impl Progress {
    /// Whether the process is late.
    fn note(&mut self, now: Instant, read: u32, waiting: u32) -> bool {
        let goes_on = waiting == 0 || read != self.read;
        self.read = read;
        if goes_on {
            self.waits_since = None;
            return false;
        }
        now >= *self.waits_since.get_or_insert(now) + LATE
    }
}

impl Host {
    /// A process has a port together with others that ask for the same. The socket must be one that
    /// is bound to it.
    pub(super) fn join_port(
        &mut self,
        client: Client,
        port: Port,
        socket: Option<&OwnedFd>,
    ) -> io::Result<()> {
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        let inode = inode_of(socket, port)?;
        let change = self.ledger.join_port(client.place(), port, inode)?;
        if let (Protocol::Tcp, Some(member)) = (port.0, self.members.get_mut(&client.place())) {
            member.listened.insert(port.1.port());
        }
        let done = self.steer_group(port, change);
        if done.is_err() {
            self.leave_port(client.place(), port);
        }
        done
    }

    fn steer_group(&self, port: Port, change: GroupChange) -> io::Result<()> {
        let (protocol, local) = port;
        self.update_shares(change.number)?;
        if change.is_only {
            let maps = self.attached.maps();
            maps.set_group(local.port(), protocol as u8, change.number)?;
            maps.add(port)?;
            // Flows are looked for first.
            maps.port_has_exemptions(local, protocol as u8)?;
        }
        Ok(())
    }

    /// A process has it no longer. `false`: it had none together with others.
    pub(super) fn leave_port(&mut self, place: u8, port: Port) -> bool {
        let Some(change) = self.ledger.leave_port(place, port) else {
            return false;
        };
        if change.is_only {
            // What cannot be taken out leads to nobody.
            let _ = self.attached.maps().remove(port);
        }
        let _ = self.update_shares(change.number);
        // What it keeps has flows by now.
        let (protocol, local) = port;
        let maps = self.attached.maps();
        maps.forget_births_of(place, local.port(), protocol as u8);
        true
    }

    fn update_shares(&self, number: u8) -> io::Result<()> {
        let groups = self.ledger.groups();
        let (all, listens) = (groups.takers(number), groups.listens(number));
        let late = |place: &u8| listens && self.late.contains(place);
        let mut takers: Vec<u8> = all.iter().copied().filter(|it| !late(it)).collect();
        if takers.is_empty() {
            // One that is late is better than nobody.
            takers = all;
        }
        let shares = Shares::among(takers.iter().copied());
        Ok(self.attached.maps().set_shares(number, &shares)?)
    }

    /// What a process has together with others it has no longer.
    pub(super) fn leave_groups(&mut self, client: Client) {
        for port in self.ledger.ports_in_groups(client.place()) {
            self.leave_port(client.place(), port);
        }
    }

    /// Whether all of the sockets with the numbers in these octets are of processes that have the
    /// port together.
    pub(super) fn have_joined(&self, port: Port, numbers: &[u8]) -> io::Result<()> {
        let (numbers, rest) = numbers.as_chunks::<8>();
        if !rest.is_empty() || numbers.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let inodes = numbers.iter().map(|it| u64::from_ne_bytes(*it));
        match self.ledger.groups().have_joined(port, inodes) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// Binds the socket of a connection, as whoever has accepted it may not have the rights that
    /// the port takes. Its listener was shown.
    pub(super) fn bind(&self, place: u8, socket: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        let refused = || io::Error::from_raw_os_error(libc::EACCES);
        let local = socket_options::address(name).ok_or_else(refused)?;
        let member = self.members.get(&place).ok_or_else(refused)?;
        if !member.listened.contains(&local.port()) {
            return Err(refused());
        }
        socket_options::check(socket)?;
        Ok(rustix::net::bind(socket, &local)?)
    }

    /// The kernel has a connection from here on that a peer has opened to a group.
    pub(super) fn forget_connection(&mut self, place: u8, port: Port, peer: SocketAddr) {
        self.forget_birth(place, port, peer);
        if self.ledger.remove_flow(place, (port, peer)) {
            let (protocol, local) = port;
            let maps = self.attached.maps();
            let _ = maps.remove_flow(local, peer, protocol as u8);
        }
    }

    /// Whether the program gives a process a connection for the SYN's sake.
    pub(super) fn is_born_to(&self, place: u8, (protocol, local): Port, peer: SocketAddr) -> bool {
        let maps = self.attached.maps();
        maps.born_to(local, peer, protocol as u8) == Some(place)
    }

    /// It does so no longer.
    pub(super) fn forget_birth(&self, place: u8, port: Port, peer: SocketAddr) {
        if self.is_born_to(place, port, peer) {
            let (protocol, local) = port;
            // It may have made room for another just now.
            let _ = self
                .attached
                .maps()
                .forget_birth(local, peer, protocol as u8);
        }
    }

    /// Who is late gets no new connections until it goes on.
    pub(super) fn follow_progress(&mut self, now: Instant) {
        let mut changed = Vec::new();
        for (place, member) in &mut self.members {
            if self.ledger.groups().of(*place).next().is_none() {
                continue;
            }
            let rings = member.sockets.iter_mut().map(|it| it.rx.look());
            let (read, waiting) = rings.fold((0_u32, 0_u32), |(read, waiting), it| {
                (read.wrapping_add(it.0), waiting.wrapping_add(it.1))
            });
            let is_late = member.progress.note(now, read, waiting);
            let did_change = match is_late {
                true => self.late.insert(*place),
                false => self.late.remove(place),
            };
            if did_change {
                changed.push(*place);
            }
        }
        for place in changed {
            let numbers: Vec<u8> = self.ledger.groups().of(place).collect();
            for number in numbers {
                // The next time, if at all.
                let _ = self.update_shares(number);
            }
        }
    }
}

/// The number of a socket, which must be bound to the port.
fn inode_of(socket: &OwnedFd, port: Port) -> io::Result<u64> {
    let bound = SocketAddr::try_from(getsockname(socket)?)?.port();
    let protocol = sockopt::socket_protocol(socket)?;
    let is_of = protocol.is_some_and(|it| it.as_raw().get() == port.0 as u32);
    if bound != port.1.port() || !is_of {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(fstat(socket)?.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_for_long_is_late() {
        let mut progress = Progress::default();
        let begin = Instant::now();
        let at = |msec| begin + Duration::from_millis(msec);
        assert!(!progress.note(at(0), 7, 1));
        assert!(!progress.note(at(10), 7, 1));
        assert!(progress.note(at(110), 7, 2));
        assert!(!progress.note(at(120), 8, 1), "it goes on");
        assert!(!progress.note(at(130), 8, 1) && !progress.note(at(200), 8, 1));
        assert!(!progress.note(at(210), 8, 0), "nothing is there");
        assert!(!progress.note(at(400), 8, 1));
    }
}
