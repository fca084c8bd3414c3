//! A connection of the kernel, taken out of it and put into it (`TCP_REPAIR`; the order of the
//! calls is that of CRIU's `soccr`).

mod calls;

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};

use libc::c_int;
use socket2::{Domain, Socket, Type};
use tcp::{Flags, Header, RepairTimestamps, SeqNumber, Snapshot, State, WindowScales};
use testkit::{Namespace, Tun};
use wire::tcp::{Options, Template, Timestamps};

use super::Look;
use crate::host::{LINK_HEADER_LEN, NO_LINK_ADDRESSES};
use calls::{get, info, integer, request, set, set_at};

/// Takes the connection out of the kernel, which forgets it without a word to the peer.
pub(crate) fn take_out(stream: TcpStream) -> io::Result<Snapshot<Vec<u8>>> {
    set(&stream, libc::TCP_REPAIR, &REPAIR_ON)?;
    let info = info(&stream)?;
    let state = state_of(&info);
    let has_option = |option| info.tcpi_options & option != 0;

    set(&stream, libc::TCP_REPAIR_QUEUE, &TCP_RECV_QUEUE)?;
    let rcv_nxt = integer(&stream, libc::TCP_QUEUE_SEQ)?;
    let unread = peek(&stream, request(&stream, libc::FIONREAD)?)?;

    set(&stream, libc::TCP_REPAIR_QUEUE, &TCP_SEND_QUEUE)?;
    let write_seq = integer(&stream, libc::TCP_QUEUE_SEQ)?;
    // Both count a FIN.
    let outstanding = request(&stream, libc::TIOCOUTQ)?;
    let unsent = request(&stream, SIOCOUTQNSD)?;
    let has_open_fin = matches!(state, State::FinWait1 | State::Closing | State::LastAck);
    let unacknowledged = peek(&stream, outstanding - usize::from(has_open_fin))?;

    let mut window = [0; 5];
    get(&stream, libc::TCP_REPAIR_WINDOW, &mut window)?;
    let peer_mss = integer(&stream, libc::TCP_MAXSEG)?;
    let value = integer(&stream, libc::TCP_TIMESTAMP)?;
    let [snd, rcv] = [
        info.tcpi_snd_rcv_wscale & 0xf,
        info.tcpi_snd_rcv_wscale >> 4,
    ];
    // Closed while under repair, nothing is sent.
    drop(stream);
    Ok(Snapshot {
        state,
        options: tcp::Options::default(),
        snd_una: SeqNumber(write_seq) - octets(outstanding),
        snd_nxt: SeqNumber(write_seq) - octets(unsent),
        unacknowledged,
        rcv_nxt: SeqNumber(rcv_nxt),
        unread: if unread.is_empty() {
            vec![]
        } else {
            vec![unread]
        },
        urgent: None,
        window: window.into(),
        peer_mss: u16::try_from(peer_mss).expect("an MSS"),
        window_scales: has_option(TCPI_OPT_WSCALE).then_some(WindowScales { snd, rcv }),
        has_sack: has_option(TCPI_OPT_SACK),
        has_ecn: has_option(TCPI_OPT_ECN),
        // The kernel does not tell what it saw last of the peer's clock.
        timestamps: has_option(TCPI_OPT_TIMESTAMPS)
            .then_some(RepairTimestamps { value, recent: 0 }),
    })
}

/// Puts the connection into the kernel of `namespace`. What only the peer can cause, it says
/// through `link`.
pub(crate) fn put_in(
    namespace: &Namespace,
    link: &Tun,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    snapshot: &Snapshot<Vec<u8>>,
) -> io::Result<TcpStream> {
    let mut stream = namespace.enter(|| connect_silently(local, remote, snapshot))?;
    set_options(&stream, snapshot)?;
    set(&stream, libc::TCP_REPAIR_QUEUE, &TCP_RECV_QUEUE)?;
    for piece in snapshot.unread.concat().chunks(PIECE) {
        stream.write_all(piece)?;
    }
    let in_flight = snapshot.snd_nxt - snapshot.snd_una;
    let in_flight = snapshot.unacknowledged.len().min(in_flight as usize);
    let (sent, unsent) = snapshot.unacknowledged.split_at(in_flight);
    set(&stream, libc::TCP_REPAIR_QUEUE, &TCP_SEND_QUEUE)?;
    stream.write_all(sent)?;
    set(&stream, libc::TCP_REPAIR_WINDOW, &snapshot.repair_window())?;
    set(&stream, libc::TCP_REPAIR, &REPAIR_OFF)?;
    stream.write_all(unsent)?;
    if snapshot.state.has_fin() && snapshot.state != State::LastAck {
        stream.shutdown(Shutdown::Write)?;
    }
    if snapshot.state.has_peer_fin() {
        let seq = snapshot.rcv_nxt - 1;
        say(link, local, remote, snapshot, seq, Flags::ACK | Flags::FIN)?;
    }
    if snapshot.state == State::LastAck {
        stream.shutdown(Shutdown::Write)?;
    }
    if snapshot.state == State::FinWait2 {
        say(link, local, remote, snapshot, snapshot.rcv_nxt, Flags::ACK)?;
    }
    Ok(stream)
}

/// A socket under repair is connected without a packet, in the state ESTABLISHED.
fn connect_silently(
    local: SocketAddrV4,
    remote: SocketAddrV4,
    snapshot: &Snapshot<Vec<u8>>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    for (option, size) in [
        (libc::SO_SNDBUFFORCE, SEND_BUFFER_SIZE),
        (libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_SIZE),
    ] {
        set_at(&socket, libc::SOL_SOCKET, option, &size)?;
    }
    set(&socket, libc::TCP_REPAIR, &REPAIR_ON)?;
    let unread: usize = snapshot.unread.iter().map(Vec::len).sum();
    let fin = u32::from(snapshot.state.has_peer_fin());
    let read_nxt = snapshot.rcv_nxt - fin - octets(unread);
    set(&socket, libc::TCP_REPAIR_QUEUE, &TCP_RECV_QUEUE)?;
    set(&socket, libc::TCP_QUEUE_SEQ, &read_nxt.0)?;
    let fin = u32::from(snapshot.state == State::FinWait2);
    set(&socket, libc::TCP_REPAIR_QUEUE, &TCP_SEND_QUEUE)?;
    set(&socket, libc::TCP_QUEUE_SEQ, &(snapshot.snd_una - fin).0)?;
    socket.bind(&local.into())?;
    socket.connect(&remote.into())?;
    Ok(socket.into())
}

fn set_options(stream: &TcpStream, snapshot: &Snapshot<Vec<u8>>) -> io::Result<()> {
    for option in snapshot.repair_options() {
        set(stream, libc::TCP_REPAIR_OPTIONS, &option)?;
    }
    match snapshot.timestamps {
        Some(timestamps) => set(stream, libc::TCP_TIMESTAMP, &timestamps.value),
        None => Ok(()),
    }
}

/// A segment in the peer's stead.
fn say(
    link: &Tun,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    snapshot: &Snapshot<Vec<u8>>,
    seq: SeqNumber,
    flags: Flags,
) -> io::Result<()> {
    let scale = snapshot.window_scales.map_or(0, |scales| scales.snd);
    let header = Header {
        seq: seq.0,
        ack: snapshot.snd_una.0,
        flags,
        window: u16::try_from(snapshot.window.snd_wnd >> scale).expect("a window"),
        urgent: 0,
        options: Options {
            timestamps: snapshot.timestamps.map(|timestamps| Timestamps {
                value: timestamps.recent,
                echo: timestamps.value,
            }),
            ..Options::default()
        },
    };
    let template = Template::new(NO_LINK_ADDRESSES, remote, local, 64, 0, true);
    let mut frame = [0; 128];
    let len = template.emit(&mut frame, 0, 0, &header, []);
    link.send(&frame[LINK_HEADER_LEN..len.expect("a header fits")])
}

/// What is in the queue that is being repaired.
fn peek(stream: &TcpStream, len: usize) -> io::Result<Vec<u8>> {
    let mut octets = vec![0; len];
    if len > 0 {
        let count = stream.peek(&mut octets)?;
        assert_eq!(count, octets.len(), "the queue is as long as it says");
    }
    Ok(octets)
}

pub(crate) fn look_at(stream: &TcpStream) -> io::Result<Look> {
    let info = info(stream)?;
    Ok(Look {
        state: state_of(&info),
        unread: request(stream, libc::FIONREAD)?,
        unacknowledged: request(stream, libc::TIOCOUTQ)?,
        unsent: request(stream, SIOCOUTQNSD)?,
        snd_wnd: info.tcpi_snd_wnd,
        rcv_wnd: info.tcpi_rcv_wnd,
    })
}

fn state_of(info: &libc::tcp_info) -> State {
    let state = State::from_linux_number(info.tcpi_state);
    state.unwrap_or_else(|| panic!("the kernel's connection is in state {}", info.tcpi_state))
}

/// Of a queue, as sequence numbers count them.
fn octets(len: usize) -> u32 {
    u32::try_from(len).expect("less than a window")
}

/// What one call puts into a queue that is being repaired.
const PIECE: usize = 1 << 14;

/// More than what can lie in the engine's queues, or the calls that fill them would block.
const SEND_BUFFER_SIZE: c_int = 1 << 24;
const RECEIVE_BUFFER_SIZE: c_int = 1 << 20;

// kernel `include/uapi/linux/tcp.h`, `include/uapi/linux/sockios.h`
const REPAIR_ON: c_int = 1;
const REPAIR_OFF: c_int = 0;
const TCP_RECV_QUEUE: c_int = 1;
const TCP_SEND_QUEUE: c_int = 2;
const TCPI_OPT_TIMESTAMPS: u8 = 1;
const TCPI_OPT_SACK: u8 = 2;
const TCPI_OPT_WSCALE: u8 = 4;
const TCPI_OPT_ECN: u8 = 8;
const SIOCOUTQNSD: libc::Ioctl = 0x894b;
