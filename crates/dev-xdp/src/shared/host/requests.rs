//! What processes ask, and the answers.

use dev_core::BIND;

use super::*;
use crate::table::Port;

/// What the host asks of the system for those that it serves.
pub trait System {
    /// What the kernel says of the interface. `None`: it is gone.
    fn look(&mut self) -> Option<Facts>;

    /// Ends a connection of the kernel's with these ends, if there is one: mostly in TIME-WAIT.
    fn end_connection(&mut self, local: SocketAddr, peer: SocketAddr);

    /// Has the kernel of this host receive an IP packet for one of its addresses.
    fn receive(&self, packet: &[u8], to: IpAddr) -> bool;

    /// Whether the kernel has a connection.
    fn has_connection(&self, local: SocketAddr, peer: SocketAddr) -> bool;
}

impl Host {
    /// Answers a process's question.
    pub fn serve(
        &mut self,
        client: Client,
        question: &Question,
        system: &mut dyn System,
    ) -> [u8; 4] {
        let done = match Request::decode(&question.message) {
            Some((request, value)) if self.is_member(client) => {
                self.perform(client, request, (question.along.as_ref(), value), system)
            }
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        let errno = done.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        errno.to_ne_bytes()
    }

    fn add_port(&mut self, place: u8, port: Port) -> io::Result<()> {
        if self.ledger.groups().is_member(place, port) {
            return Ok(());
        }
        let maps = self.attached.maps();
        let (protocol, local) = port;
        if self.ledger.add_port(place, port)? {
            maps.set_owner(local.port(), protocol as u8, place)?;
        }
        Ok(maps.add(port)?)
    }

    fn add_flow(&mut self, place: u8, port: Port, peer: SocketAddr) -> io::Result<()> {
        self.ledger.add_flow(place, (port, peer))?;
        let maps = self.attached.maps();
        let (protocol, local) = port;
        maps.add_flow_of(place, local, peer, protocol as u8)?;
        self.forget_birth(place, port, peer);
        Ok(())
    }

    pub(super) fn is_member(&self, client: Client) -> bool {
        let member = self.members.get(&client.place());
        member.is_some_and(|member| member.client == client)
    }

    fn perform(
        &mut self,
        client: Client,
        request: Request,
        (along, value): (Option<&OwnedFd>, &[u8]),
        system: &mut dyn System,
    ) -> io::Result<()> {
        let place = client.place();
        let maps = self.attached.maps();
        match request {
            Request::AddPort(protocol, local) => self.add_port(place, (protocol, local)),
            Request::RemovePort(protocol, local) => {
                if self.leave_port(place, (protocol, local)) {
                    return Ok(());
                }
                let maps = self.attached.maps();
                match self.ledger.remove_port(place, (protocol, local)) {
                    true => Ok(maps.remove((protocol, local))?),
                    false => Ok(()),
                }
            }
            Request::PortHasExemptions(protocol, local) => {
                let port = (protocol, local);
                match self.ledger.has_port(place, port) {
                    // Always.
                    _ if self.ledger.groups().is_member(place, port) => Ok(()),
                    true => Ok(maps.port_has_exemptions(local, protocol as u8)?),
                    false => Err(io::Error::from_raw_os_error(libc::EACCES)),
                }
            }
            Request::AddFlow(protocol, local, peer) => {
                self.add_flow(place, (protocol, local), peer)
            }
            Request::RemoveFlow(protocol, local, peer) => {
                match self.ledger.remove_flow(place, ((protocol, local), peer)) {
                    true => Ok(taken_out(maps.remove_flow(local, peer, protocol as u8))?),
                    false => Ok(()),
                }
            }
            Request::AddExemption(protocol, local, peer) => {
                if self.ledger.groups().has((protocol, local)) {
                    self.forget_connection(place, (protocol, local), peer);
                    return Ok(());
                }
                self.ledger
                    .add_exemption(place, ((protocol, local), peer))?;
                Ok(maps.add_exemption(local, peer, protocol as u8)?)
            }
            Request::RemoveExemption(protocol, local, peer) => {
                let flow = ((protocol, local), peer);
                match self.ledger.remove_exemption(place, flow) {
                    true => Ok(taken_out(maps.remove_exemption(
                        local,
                        peer,
                        protocol as u8,
                    ))?),
                    false => Ok(()),
                }
            }
            Request::LookAgain => {
                let facts = system.look().ok_or(io::ErrorKind::NotConnected)?;
                self.follow(&facts)
            }
            Request::Stamp(stamps) => self.attached.stamp(noted(stamps)),
            Request::GiveBack => {
                self.remove_flows(client);
                Ok(())
            }
            Request::JoinPort(protocol, local) => self.join_port(client, (protocol, local), along),
            Request::Admit(protocol, local, peer) => {
                self.admit_connection(place, (protocol, local), peer, (along, value), system)
            }
            Request::HaveJoined(protocol, local) => self.have_joined((protocol, local), value),
            Request::SetOption(name) => match along {
                Some(socket) if i32::from(name) == BIND => self.bind(place, socket.as_fd(), value),
                Some(socket) => socket_options::set(socket.as_fd(), name.into(), value),
                None => Err(io::Error::from_raw_os_error(libc::EBADF)),
            },
        }
    }
}

/// What a process asks, and what came along with it.
#[derive(Debug)]
pub struct Question {
    message: Vec<u8>,
    along: Option<OwnedFd>,
}

impl Question {
    /// The next one. `None`: the process has gone.
    pub fn read(socket: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let mut bytes = [0; crate::shared::message::BYTES_MAX];
        let (len, fds) = fds::receive(socket, &mut bytes)?;
        Ok((len > 0).then(|| Self {
            message: bytes[..len].to_vec(),
            along: fds.into_iter().next(),
        }))
    }
}

/// A broker's program does not ask drivers.
fn noted(stamps: bool) -> Noted {
    match stamps {
        true => Noted::Time,
        false => Noted::Nothing,
    }
}
