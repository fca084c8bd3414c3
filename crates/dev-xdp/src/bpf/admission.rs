//! Puts connections that were made past the kernel into the queue of the kernel's listening socket,
//! from which `accept(2)` takes them in whichever process.
//!
//! The kernel makes a connection of an ACK alone where a program vouches for the handshake:
//! `bpf_sk_assign_tcp_reqsk` (Linux 6.9, `net/core/filter.c`), which is there for SYN proxies,
//! takes what was agreed upon, and the sequence numbers are the ACK's. So the ACK is sent once
//! more, to this host itself, and a program at the loopback interface's ingress vouches for it. The
//! connection goes on with the numbers, scales and clocks that the peer knows.
//!
//! The program touches no packet whose addresses are not in its map. It lets none of those through
//! to the listening socket which that would answer with a reset.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use dev_core::{Admission, Agreed, ReceivingHost};

use super::asm::{Assembler, BadJump};
use super::btf::Btf;
use super::error::BpfError;
use super::insn::Condition::{Equal, Greater, NotEqual};
use super::insn::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::insn::Width::{U8, U16, U32};
use super::insn::{Helper, Instruction};
use super::syscall::{self, Map, MapKind, Name, ProgramKind};

/// The program at the loopback interface, for as long as this lives.
#[derive(Debug)]
pub struct LoopbackAdmission {
    expected: Map<KEY_BYTES, VALUE_BYTES>,
    _program: OwnDescriptor,
    _link: OwnDescriptor,
}

/// A kernel function that programs may call, by the number of its type.
#[derive(Clone, Copy, Debug)]
pub struct Vouch(u32);

impl Vouch {
    /// The function of the running kernel. Looks through its types: that takes milliseconds.
    pub fn find() -> io::Result<Self> {
        let function = Btf::of_kernel()?.function("bpf_sk_assign_tcp_reqsk");
        function
            .map(Self)
            .ok_or_else(|| io::Error::other("programs vouch for connections since Linux 6.9"))
    }
}

impl LoopbackAdmission {
    /// Attaches the program in the network namespace of the thread. Takes `CAP_BPF` and
    /// `CAP_NET_ADMIN`.
    pub fn begin(vouch: Vouch) -> io::Result<Self> {
        if std::fs::read_to_string(COOKIES).is_ok_and(|text| text.trim() == "0") {
            return Err(io::Error::other("net.ipv4.tcp_syncookies is 0"));
        }
        let attempt = "create the map of connections for the kernel";
        let expected =
            Map::create(MapKind::Hash, NAME, EXPECTED_MAX, attempt).map_err(io::Error::other)?;
        let attempt = "load the program that vouches for connections";
        let instructions = assemble(expected.descriptor(), vouch)
            .map_err(|bad_jump| BpfError::new(attempt, io::Error::other(bad_jump)))
            .map_err(io::Error::other)?;
        let program = syscall::load(
            ProgramKind::Classifier,
            None,
            &instructions,
            NAME,
            c"Dual MIT/GPL",
            attempt,
        )
        .map_err(io::Error::other)?;
        let link = syscall::create_ingress_link(program.as_fd(), index_of(c"lo")?)?;
        Ok(Self {
            expected,
            _program: program,
            _link: link,
        })
    }

    /// Sends a packet until the program has seen it, and returns what it has said.
    fn pass(
        &self,
        key: &[u8; KEY_BYTES],
        agreed: &Agreed,
        step: Step,
        send: impl Fn() -> bool,
    ) -> io::Result<Verdict> {
        self.expected.update(key, &value(agreed, step))?;
        if !send() {
            return Err(io::Error::from_raw_os_error(libc::EHOSTUNREACH));
        }
        // Mostly it has been received when the call returns.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.expected.lookup(key)?;
            let verdict = seen.as_ref().map_or(Verdict::Unseen, verdict_of);
            if verdict != Verdict::Unseen {
                return Ok(verdict);
            }
            if Instant::now() >= deadline {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Admission for LoopbackAdmission {
    fn admit(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
        agreed: &Agreed,
        packets: &[Vec<u8>],
        kernel: &dyn ReceivingHost,
    ) -> io::Result<()> {
        let key = key_of(local, peer);
        let agreed = &Agreed {
            peer_mss: agreed.peer_mss.max(mss_min(peer)),
            ..*agreed
        };
        let admitted = packets.iter().enumerate().try_for_each(|(index, packet)| {
            let deadline = Instant::now() + PATIENCE;
            let step = match kernel.has_connection() {
                _ if index == 0 => Step::First,
                None => Step::Later,
                Some(_) => {
                    // The program finds no socket that is bound to an interface: packets come to it
                    // by the loopback's.
                    while kernel.has_connection() == Some(false) {
                        if Instant::now() >= deadline {
                            return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
                        }
                        std::thread::sleep(PAUSE);
                    }
                    Step::Unseen
                }
            };
            loop {
                let send = || kernel.receive(packet);
                match self.pass(&key, agreed, step, send)? {
                    Verdict::Done(0) => return Ok(()),
                    // The kernel has not made the connection yet, or has no room for it.
                    Verdict::Again if Instant::now() < deadline => std::thread::sleep(PAUSE),
                    Verdict::Again => return Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                    Verdict::Done(errno) => return Err(io::Error::from_raw_os_error(errno)),
                    Verdict::NoListener => {
                        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
                    }
                    Verdict::Unseen => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                }
            }
        });
        let _ = self.expected.delete(&key);
        if let (Err(_), Some(packet)) = (&admitted, packets.first()) {
            // The kernel answers it with a reset: it does not know the connection, which nobody has
            // any more.
            kernel.receive(packet);
        }
        admitted
    }
}

/// Which packet of a connection comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Step {
    /// The ACK that ends the handshake.
    First = 1,
    /// One for the connection that the kernel has made of it.
    Later = 2,
    /// The same for one that the program cannot see.
    Unseen = 3,
}

/// What the program has said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unseen,
    /// The kernel has it, or refuses to, with this errno.
    Done(i32),
    /// It was dropped: there is no such connection yet.
    Again,
    /// It was dropped: nobody listens.
    NoListener,
}

/// Where things are in an entry's value: `struct bpf_tcp_req_attrs`, the step, the program's
/// verdict and errno.
mod at {
    pub(super) const STEP: i16 = 20;
    pub(super) const VERDICT: i16 = 24;
    pub(super) const ERRNO: i16 = 28;
}

/// `sizeof(struct bpf_tcp_req_attrs)`
const ATTRIBUTES_BYTES: i32 = 20;
const VALUE_BYTES: usize = 32;
/// Addresses and ports as in the packet: `struct bpf_sock_tuple`. That of IPv4 is shorter; zeros
/// follow it.
const KEY_BYTES: usize = 36;
const V4_TUPLE_BYTES: i32 = 12;
const EXPECTED_MAX: u32 = 16;

const DONE: i32 = 1;
const AGAIN: i32 = 2;
const NO_LISTENER: i32 = 3;

fn key_of(local: SocketAddr, peer: SocketAddr) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        key[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    for address in [peer.ip(), local.ip()] {
        match address {
            IpAddr::V4(ip) => put(&ip.octets()),
            IpAddr::V6(ip) => put(&ip.octets()),
        }
    }
    put(&peer.port().to_be_bytes());
    put(&local.port().to_be_bytes());
    key
}

/// The kernel takes none that is smaller (`bpf_sk_assign_tcp_reqsk`). A path of IPv6 has room for
/// it, whatever the peer said.
fn mss_min(peer: SocketAddr) -> u16 {
    if peer.is_ipv6() { 1280 - 60 } else { 0 }
}

fn value(agreed: &Agreed, step: Step) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let mut put = |at: usize, bytes: &[u8]| value[at..at + bytes.len()].copy_from_slice(bytes);
    if let Some(clocks) = agreed.timestamps {
        put(0, &clocks.peers.to_ne_bytes());
        put(4, &clocks.ours.to_ne_bytes());
    }
    put(8, &agreed.peer_mss.to_ne_bytes());
    if let Some(shifts) = agreed.window_scales {
        put(10, &[shifts.receive, shifts.send]);
    }
    put(
        12,
        &[
            u8::from(agreed.has_ecn),
            u8::from(agreed.window_scales.is_some()),
            u8::from(agreed.has_sack),
            u8::from(agreed.timestamps.is_some()),
        ],
    );
    put(at::STEP as usize, &(step as i32).to_ne_bytes());
    value
}

fn verdict_of(value: &[u8; VALUE_BYTES]) -> Verdict {
    let [.., v0, v1, v2, v3, e0, e1, e2, e3] = *value;
    let errno = i32::from_ne_bytes([e0, e1, e2, e3]);
    match i32::from_ne_bytes([v0, v1, v2, v3]) {
        DONE => Verdict::Done(errno.saturating_neg()),
        AGAIN => Verdict::Again,
        NO_LISTENER => Verdict::NoListener,
        _ => Verdict::Unseen,
    }
}

/// `struct __sk_buff`, `struct bpf_sock`, and an Ethernet frame with IP and TCP.
mod offset {
    pub(super) const DATA: i16 = 76;
    pub(super) const DATA_END: i16 = 80;
    pub(super) const SOCKET_STATE: i16 = 72;
    pub(super) const ETHERTYPE: i16 = 12;
    pub(super) const VERSION: i16 = 14;
    pub(super) const PROTOCOL: i16 = 23;
    pub(super) const SOURCE: i16 = 26;
    pub(super) const DESTINATION: i16 = 30;
    pub(super) const PORTS: i16 = 34;
    /// Where the ports end.
    pub(super) const END: i32 = 38;
    /// Of IPv6.
    pub(super) const NEXT_HEADER: i16 = 20;
    /// Both addresses and the ports, one behind the other.
    pub(super) const TUPLE_V6: i16 = 22;
    pub(super) const END_V6: i32 = 58;
}

/// The source of the program. R6 is the packet's context, R7 its data, R8 the end of that, then the
/// length of the tuple, then the socket, R9 the map's value.
fn assemble(map: &OwnDescriptor, vouch: Vouch) -> Result<Vec<Instruction>, BadJump> {
    let mut a = Assembler::default();
    let (pass, found, connected, too_early) = (a.label(), a.label(), a.label(), a.label());
    let (v6, look_up, seen) = (a.label(), a.label(), a.label());
    a.mov(R6, R1);
    a.load(R7, U32, R6, offset::DATA);
    a.load(R8, U32, R6, offset::DATA_END);
    a.mov(R1, R7);
    a.add(R1, offset::END);
    a.jump_if(R1, Greater, R8, pass);
    a.load(R1, U16, R7, offset::ETHERTYPE);
    a.jump_if(R1, Equal, i32::from(ETHERTYPE_IPV6.to_be()), v6);
    a.jump_if(R1, NotEqual, i32::from(ETHERTYPE_IPV4.to_be()), pass);
    a.load(R1, U8, R7, offset::VERSION);
    a.jump_if(R1, NotEqual, VERSION_4_NO_OPTIONS, pass);
    a.load(R1, U8, R7, offset::PROTOCOL);
    a.jump_if(R1, NotEqual, libc::IPPROTO_TCP, pass);

    // The addresses, as key and for the look-up.
    for (place, from) in [
        (TUPLE, offset::SOURCE),
        (TUPLE + 4, offset::DESTINATION),
        (TUPLE + 8, offset::PORTS),
    ] {
        a.load(R1, U32, R7, from);
        a.store(U32, R10, place, R1);
    }
    for place in (V4_TUPLE_BYTES as i16..KEY_BYTES as i16).step_by(4) {
        a.store(U32, R10, TUPLE + place, 0);
    }
    a.mov(R8, V4_TUPLE_BYTES);
    a.jump_if(R8, Equal, V4_TUPLE_BYTES, look_up);

    a.place(v6);
    a.mov(R1, R7);
    a.add(R1, offset::END_V6);
    a.jump_if(R1, Greater, R8, pass);
    a.load(R1, U8, R7, offset::NEXT_HEADER);
    a.jump_if(R1, NotEqual, libc::IPPROTO_TCP, pass);
    for place in (0..KEY_BYTES as i16).step_by(4) {
        // In halves: the addresses are not aligned to more.
        for half in [place, place + 2] {
            a.load(R1, U16, R7, offset::TUPLE_V6 + half);
            a.store(U16, R10, TUPLE + half, R1);
        }
    }
    a.mov(R8, KEY_BYTES as i32);

    a.place(look_up);
    a.load_map(R1, map.as_fd());
    a.mov(R2, R10);
    a.add(R2, i32::from(TUPLE));
    a.call(Helper::MapLookupElement);
    a.jump_if(R0, Equal, 0, pass);
    a.mov(R9, R0);
    // An answer was given: this is another packet with the same addresses.
    a.load(R1, U32, R9, at::VERDICT);
    a.jump_if(R1, NotEqual, 0, pass);
    a.load(R1, U32, R9, at::STEP);
    a.jump_if(R1, NotEqual, Step::Unseen as i32, seen);
    a.store(U32, R9, at::VERDICT, DONE);
    a.jump_if(R1, Equal, Step::Unseen as i32, pass);

    a.place(seen);
    a.mov(R1, R6);
    a.mov(R2, R10);
    a.add(R2, i32::from(TUPLE));
    a.mov(R3, R8);
    a.mov(R4, CURRENT_NAMESPACE);
    a.mov(R5, 0);
    a.call(Helper::SocketLookupTcp);
    a.jump_if(R0, NotEqual, 0, found);
    a.store(U32, R9, at::VERDICT, NO_LISTENER);
    a.mov(R0, DROP);
    a.exit();

    a.place(found);
    a.mov(R8, R0);
    a.mov(R7, 0);
    a.load(R1, U32, R8, offset::SOCKET_STATE);
    a.jump_if(R1, NotEqual, STATE_LISTEN, connected);
    a.load(R1, U32, R9, at::STEP);
    a.jump_if(R1, NotEqual, Step::First as i32, too_early);
    a.mov(R1, R6);
    a.mov(R2, R8);
    a.mov(R3, R9);
    a.mov(R4, ATTRIBUTES_BYTES);
    a.call_function(vouch.0);
    a.mov(R7, R0);
    a.place(connected);
    a.store(U32, R9, at::ERRNO, R7);
    a.store(U32, R9, at::VERDICT, DONE);
    a.mov(R1, R8);
    a.call(Helper::SocketRelease);
    // Also if it was refused: then the listening socket resets what nobody can have.
    a.mov(R0, 0);
    a.jump_if(R0, Equal, 0, pass);

    a.place(too_early);
    a.store(U32, R9, at::VERDICT, AGAIN);
    a.mov(R1, R8);
    a.call(Helper::SocketRelease);
    a.mov(R0, DROP);
    a.exit();

    a.place(pass);
    a.mov(R0, NEXT);
    a.exit();
    a.finish()
}

fn index_of(name: &CStr) -> io::Result<u32> {
    // SAFETY: a string that ends with zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

const NAME: Name = *b"vma_admission\0\0\0";
const COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";
/// How long a packet may take from here to the program.
const PATIENCE: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_micros(50);

/// Place of a `struct bpf_sock_tuple` in the stack frame.
const TUPLE: i16 = -40;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const VERSION_4_NO_OPTIONS: i32 = 0x45;
/// `BPF_F_CURRENT_NETNS`
const CURRENT_NAMESPACE: i32 = -1;
/// `BPF_TCP_LISTEN`
const STATE_LISTEN: i32 = 10;
/// `TCX_NEXT`
const NEXT: i32 = -1;
/// `TCX_DROP`
const DROP: i32 = 2;
