//! One call after the other, as the input's bytes say.

use std::ffi::c_void;
use std::ptr;

use libc::{c_int, iovec, pollfd};
pub use vma_api::abi::Table;
use vma_api::abi::{Buff, Completion, Info, ModifyRingAttr, PacketDesc, RingTypeAttr};

use crate::input::Input;
use crate::peer;
use crate::world::{Held, Host, World};

const MSG_VMA_ZCOPY: c_int = 0x0004_0000;
const MSG_VMA_ZCOPY_FORCE: c_int = 0x0100_0000;
const DUMMY: c_int = 0x400;
/// Of a packet with one part, in what `recvfrom_zcopy` writes.
const PACKET_BYTES: usize = 32;
const DEPTH_MAX: u32 = 3;
const HELD_MAX: usize = 64;
const COMPLETIONS_MAX: usize = 64;
const OPTIONS: [c_int; 8] = [2800, 2801, 2810, 2811, 2820, 2821, 47, 37];
const RULES: [&std::ffi::CStr; 6] = [
    c"use vma udp_receiver 10.77.0.2:9",
    c"use os udp_sender 10.9.9.9:1",
    c"",
    c"log-level debug",
    c"use what udp_receiver *:*",
    c"use vma tcp_server 1.2.3.4/77:99999999999999999999",
];

pub fn run(host: &Host, bytes: &[u8]) {
    let mut input = Input(bytes);
    let world = World::new(host);
    for _ in 0..input.byte() % 4 {
        host.arrive(usize::from(input.byte()) * 6);
    }
    if input.byte().is_multiple_of(4) {
        world.connect();
    }
    while !input.is_over() {
        call(&world, &mut input);
    }
    // Sockets are accelerated again.
    // SAFETY: integers.
    unsafe { (host.table.thread_offload)(1, libc::pthread_self()) };
    world.close();
}

pub fn sum(data: *const u8, len: usize) -> u32 {
    // SAFETY: the program has been told that they are there.
    let octets = unsafe { std::slice::from_raw_parts(data, len) };
    octets
        .iter()
        .fold(0, |sum: u32, octet| sum.rotate_left(5) ^ u32::from(*octet))
}

fn any_fd(world: &World<'_>, input: &mut Input<'_>) -> c_int {
    match input.byte() % 12 {
        0 => world.kernels,
        1 => world.epoll,
        2 => input.int(),
        3 => world.host.listener(),
        4..=6 => world.stream.get(),
        7 => ring(world),
        _ => world.udp.get(),
    }
}

/// A ring of the socket's, or -1.
fn ring(world: &World<'_>) -> c_int {
    let mut ring = -1;
    // SAFETY: there is room for one.
    unsafe { (world.host.table.get_socket_rings_fds)(world.udp.get(), &raw mut ring, 1) };
    ring
}

fn call(world: &World<'_>, input: &mut Input<'_>) {
    let fd = any_fd(world, input);
    match input.byte() % 24 {
        0 => world.host.arrive(usize::from(input.byte()) * 6),
        1 => match world.peers_stream.get() {
            -1 => world.connect(),
            peers => {
                peer::drain(peers);
                peer::send(
                    peers,
                    &crate::world::PAYLOAD[..usize::from(input.byte()) + 1],
                );
            }
        },
        2 | 3 => receive(world, fd, input),
        4 | 5 => free(world, fd, input),
        6 => show(world, fd, input),
        7 | 8 => receive_plainly(world, fd, input),
        9 | 10 => complete(world, fd, input),
        11 => free_buffers(world, input),
        12 => change_buffer(world, input),
        13 => rings(world, fd, input),
        14 => rules(world, input),
        15 => profiles(world, fd, input),
        16 => header(world, fd, input),
        17 => memory_of_rings(world, fd, input),
        18 => messages(world, input),
        19 | 20 => options(world, fd, input),
        21 => send_dummy(world, fd, input),
        22 => world.check_held(),
        _ => match input.byte() % 4 {
            0 => world.reopen(),
            1 => world.end_stream(),
            // SAFETY: an integer, and a level.
            _ => unsafe {
                (world.host.table.dump_fd_stats)(fd, input.int());
            },
        },
    }
}

/// `recvfrom_zcopy`: into a good buffer as a rule, of which the packets are taken out then.
fn receive(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let memory = world.host.memory;
    let mut room = [0_u8; 4096];
    let is_good = !input.byte().is_multiple_of(8);
    let (buffer, len) = match is_good {
        true => (room.as_mut_ptr(), input.len().min(room.len())),
        false => (memory.pointer(input), input.len()),
    };
    let asked = match input.byte() % 4 {
        0 => libc::MSG_DONTWAIT | MSG_VMA_ZCOPY_FORCE,
        1 => input.flags(),
        _ => libc::MSG_DONTWAIT,
    };
    let mut flags = asked;
    let place = match is_good {
        true => &raw mut flags,
        false => memory.place(&[asked], input),
    };
    let (from, from_len) = match input.byte() % 4 {
        0 => (
            memory.pointer(input),
            memory.place(&[input.int().cast_unsigned()], input),
        ),
        _ => (ptr::null_mut(), ptr::null_mut()),
    };
    // SAFETY: what the arguments lead to is the target's memory, or not there.
    let received = unsafe {
        (world.host.table.recvfrom_zcopy)(fd, buffer.cast(), len, place, from.cast(), from_len)
    };
    if !is_good || received < 0 || flags & MSG_VMA_ZCOPY == 0 {
        return;
    }
    let word = |at: usize| usize::from_ne_bytes(*room[at..].first_chunk().unwrap());
    let count = word(0);
    assert!(
        8 + count * PACKET_BYTES <= len,
        "more packets than there is room for"
    );
    let mut octets = 0;
    for at in (0..count).map(|number| 8 + number * PACKET_BYTES) {
        let (id, parts, data, len) = (word(at), word(at + 8), word(at + 16), word(at + 24));
        assert_eq!(parts, 1);
        octets += len;
        hold(world, fd, id, ptr::with_exposed_provenance(data), len);
    }
    assert_eq!(received as usize, octets);
}

/// Whether a datagram that comes is received without a copy.
pub fn receives_in_place(world: &World<'_>) -> bool {
    world.host.arrive(20);
    let fd = world.udp.get();
    receive(world, fd, &mut Input(&[1, 7, 200, 2, 1]));
    let was_held = !world.held.borrow().is_empty();
    give_all_back(world);
    was_held
}

fn hold(world: &World<'_>, fd: c_int, id: usize, data: *const u8, len: usize) {
    let mut held = world.held.borrow_mut();
    let sum = sum(data, len);
    held.push(Held {
        id,
        data,
        len,
        fd,
        sum,
    });
    let oldest = if held.len() > HELD_MAX {
        Some(held.remove(0))
    } else {
        None
    };
    drop(held);
    if let Some(oldest) = oldest {
        give_back(world, &oldest);
    }
}

fn give_back(world: &World<'_>, held: &Held) -> c_int {
    let mut packet = [held.id, 1, 0, 0];
    let place = packet.as_mut_ptr().cast();
    // SAFETY: there is one.
    unsafe { (world.host.table.free_packets)(held.fd, place, 1) }
}

/// `free_packets`: of packets that are held, that were, and that never were.
fn free(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let known = world.held.borrow().len();
    if known > 0 && !input.byte().is_multiple_of(4) {
        let held = world
            .held
            .borrow_mut()
            .remove(usize::from(input.byte()) % known);
        assert_eq!(sum(held.data, held.len), held.sum, "a held packet changed");
        let is_open = [world.udp.get(), world.stream.get()].contains(&held.fd);
        let first = give_back(world, &held);
        if is_open && first == 0 {
            assert_eq!(give_back(world, &held), -1, "given back twice");
        }
        return;
    }
    let id = |input: &mut Input<'_>| match input.byte() % 4 {
        0 => input.len(),
        1 => world.held.borrow().first().map_or(7, |held| held.id ^ 1),
        _ => usize::from(input.byte()),
    };
    let packets = [id(input), 1, id(input), 1, id(input), 1, 0, 0];
    let place = world.host.memory.place(&packets, input);
    let count = match input.byte() % 4 {
        0 => input.len().min(1 << 20),
        _ => usize::from(input.byte() % 4),
    };
    // SAFETY: what the arguments lead to is the target's memory, or not there.
    let freed = unsafe { (world.host.table.free_packets)(fd, place.cast(), count) };
    if freed == 0 && count > 0 {
        // One of these was right: nobody knows which.
        let kept = world.held.take();
        let still = kept.into_iter().filter(|it| !packets.contains(&it.id));
        world.held.replace(still.collect());
    }
}

pub fn give_all_back(world: &World<'_>) {
    for held in world.held.take() {
        give_back(world, &held);
    }
    for buffer in world.buffers.take() {
        // SAFETY: an address that the library has given, and perhaps has back.
        unsafe {
            (world.host.table.socketxtreme_free_vma_buff)(ptr::with_exposed_provenance_mut(buffer))
        };
    }
}

fn show(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let function = (!input.byte().is_multiple_of(3)).then_some(seen as _);
    let count = input.byte() % 8;
    let deeds = (0..count).map(|_| input.byte()).collect();
    world.deeds.replace(deeds);
    // SAFETY: the world lives until its sockets are closed.
    unsafe { (world.host.table.register_recv_callback)(fd, function, world.as_context()) };
}

/// The program's function, which may do anything.
unsafe extern "C" fn seen(
    fd: c_int,
    count: usize,
    parts: *mut iovec,
    info: *mut Info,
    context: *mut c_void,
) -> c_int {
    // SAFETY: registered with it, and its sockets are closed before it ends.
    let world = unsafe { &*context.cast::<World<'_>>() };
    // SAFETY: the library's, until the function returns.
    let (part, info) = unsafe { (*parts, info.read_unaligned()) };
    assert!(count == 1 && { info.payload_sz } == part.iov_len && { info.struct_sz } == 80);
    let now = sum(part.iov_base.cast(), part.iov_len);
    let deed = world.deeds.borrow_mut().pop().unwrap_or(1);
    if world.depth.get() < DEPTH_MAX && deed >= 8 {
        world.depth.set(world.depth.get() + 1);
        let bytes = [deed / 16, deed, deed / 3, 1, deed];
        call(world, &mut Input(&bytes));
        if deed % 32 == 31 {
            // SAFETY: ends it.
            unsafe { (world.host.table.register_recv_callback)(fd, None, ptr::null_mut()) };
        }
        world.depth.set(world.depth.get() - 1);
    }
    assert_eq!(
        sum(part.iov_base.cast(), part.iov_len),
        now,
        "it changed meanwhile"
    );
    let verdict = c_int::from(deed % 8);
    if verdict == 2 {
        let (id, data) = ({ info.packet_id }.addr(), part.iov_base.cast::<u8>());
        let mut held = world.held.borrow_mut();
        held.push(Held {
            id,
            data,
            len: part.iov_len,
            fd,
            sum: now,
        });
    }
    verdict
}

fn receive_plainly(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let mut room = [0_u8; 256];
    let mut event = pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let (place, flags) = (room.as_mut_ptr().cast(), libc::MSG_DONTWAIT | input.flags());
    // SAFETY: the room is as long as said, and there is one entry.
    unsafe {
        match input.byte() % 4 {
            0 => libc::poll(&raw mut event, 1, 1) as isize,
            1 => {
                let mut found: libc::epoll_event = std::mem::zeroed();
                found.events = libc::EPOLLIN as u32;
                libc::epoll_ctl(world.epoll, libc::EPOLL_CTL_ADD, fd, &raw mut found);
                libc::epoll_wait(world.epoll, &raw mut found, 1, 1) as isize
            }
            _ => libc::recv(fd, place, room.len(), flags),
        }
    };
}

fn complete(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let fd = if input.byte().is_multiple_of(4) {
        fd
    } else {
        ring(world)
    };
    // SAFETY: all-zero is a value of this struct.
    let mut found: [Completion; COMPLETIONS_MAX] = unsafe { std::mem::zeroed() };
    let max = usize::from(input.byte()) % COMPLETIONS_MAX;
    let place = match input.byte() % 8 {
        0 => ptr::null_mut(),
        _ => found.as_mut_ptr(),
    };
    let flags = input.int();
    let poll = world.host.table.socketxtreme_poll;
    // SAFETY: there is room for as many.
    let count = unsafe { poll(fd, place, max as u32, flags) };
    if count < 0 || place.is_null() {
        return;
    }
    assert!(count as usize <= max);
    for completion in &found[..count as usize] {
        if completion.events & 1 << 32 != 0 {
            // SAFETY: the library's until it is given back.
            let buffer = unsafe { *completion.packet.buff_lst };
            assert_eq!(buffer.len, completion.packet.total_len);
            sum(buffer.payload.cast(), usize::from(buffer.len));
            let address = completion.packet.buff_lst.expose_provenance();
            world.buffers.borrow_mut().push(address);
        }
        if completion.events & 1 << 33 != 0 {
            let accepted = completion.user_data as c_int;
            // SAFETY: the program's.
            unsafe { libc::close(accepted) };
        }
    }
    let mut buffers = world.buffers.borrow_mut();
    while buffers.len() > HELD_MAX {
        let oldest = ptr::with_exposed_provenance_mut(buffers.remove(0));
        // SAFETY: an address that the library has given.
        unsafe { (world.host.table.socketxtreme_free_vma_buff)(oldest) };
    }
}

/// One that is known, was, or never was.
fn any_buffer(world: &World<'_>, input: &mut Input<'_>) -> *mut Buff {
    let known = world.buffers.borrow();
    match (input.byte() % 4, known.len()) {
        (0, _) => world.host.memory.pointer(input).cast(),
        (1, 1..) => ptr::with_exposed_provenance_mut(known[0].wrapping_add(64)),
        (_, 0) => ptr::null_mut(),
        (_, len) => ptr::with_exposed_provenance_mut(known[usize::from(input.byte()) % len]),
    }
}

fn free_buffers(world: &World<'_>, input: &mut Input<'_>) {
    let packet = |buff_lst| PacketDesc {
        num_bufs: 1,
        total_len: 1,
        buff_lst,
        hw_timestamp: libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
    };
    let packets = [
        packet(any_buffer(world, input)),
        packet(any_buffer(world, input)),
    ];
    let place = world.host.memory.place(&packets, input);
    let count = match input.byte() % 4 {
        0 => input.int(),
        _ => c_int::from(input.byte() % 3),
    };
    // SAFETY: what the arguments lead to is the target's memory, or not there.
    unsafe { (world.host.table.socketxtreme_free_vma_packets)(place, count) };
}

fn change_buffer(world: &World<'_>, input: &mut Input<'_>) {
    let buffer = any_buffer(world, input);
    let table = world.host.table;
    // SAFETY: the library finds out what it is.
    unsafe {
        match input.byte() % 2 {
            0 => (table.socketxtreme_ref_vma_buff)(buffer),
            _ => (table.socketxtreme_free_vma_buff)(buffer),
        }
    };
}

fn rings(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let table = world.host.table;
    let mut fds = [0; 8];
    // SAFETY: there is room for as many as is said, or none.
    unsafe {
        match input.byte() % 4 {
            0 => (table.get_socket_rings_num)(fd),
            1 => (table.get_socket_rings_fds)(fd, ptr::null_mut(), input.int()),
            2 => {
                let to = world.host.memory.pointer(input).cast();
                (table.get_socket_tx_ring_fd)(fd, to, input.int().cast_unsigned())
            }
            _ => (table.get_socket_rings_fds)(fd, fds.as_mut_ptr(), input.int().min(8)),
        }
    };
}

fn rules(world: &World<'_>, input: &mut Input<'_>) {
    let table = world.host.table;
    match input.byte() % 4 {
        0 => {
            // SAFETY: integers.
            unsafe { (table.thread_offload)(input.int(), libc::pthread_self()) };
        }
        1 => {
            let text: Vec<u8> = (0..input.byte() % 40)
                .map(|_| input.byte().max(1))
                .collect();
            let text = std::ffi::CString::new(text).unwrap();
            // SAFETY: a string.
            unsafe { (table.add_conf_rule)(text.as_ptr()) };
        }
        2 => {
            let rule = RULES[usize::from(input.byte()) % RULES.len()];
            // SAFETY: a string.
            unsafe { (table.add_conf_rule)(rule.as_ptr()) };
        }
        _ => {
            // SAFETY: no string.
            unsafe { (table.add_conf_rule)(ptr::null()) };
        }
    }
}

fn profiles(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let (table, memory) = (world.host.table, world.host.memory);
    if input.byte().is_multiple_of(2) {
        let attributes = ModifyRingAttr {
            comp_bit_mask: input.byte().into(),
            ring_fd: if input.byte().is_multiple_of(2) {
                fd
            } else {
                ring(world)
            },
            cq_moderation_count: input.long(),
            cq_moderation_period_usec: input.long(),
        };
        let place = memory.place(&[attributes], input);
        // SAFETY: what the argument leads to is the target's memory, or not there.
        unsafe { (table.vma_modify_ring)(place) };
        return;
    }
    let attributes = RingTypeAttr {
        comp_mask: input.byte().into(),
        ring_type: u32::from(input.byte() % 4),
        ring_comp_mask: input.long(),
    };
    let mut key = 0;
    let key = match input.byte() % 2 {
        0 => memory.pointer(input).cast(),
        _ => &raw mut key,
    };
    let place = memory.place(&[attributes], input);
    // SAFETY: as above.
    unsafe { (table.vma_add_ring_profile)(place, key) };
}

fn header(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let memory = world.host.memory;
    let place = memory.pointer(input).cast();
    let len = memory.place(&[input.short()], input);
    // SAFETY: what the arguments lead to is the target's memory, or not there.
    unsafe { (world.host.table.get_socket_network_header)(fd, place, len) };
}

fn memory_of_rings(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let (table, place) = (world.host.table, world.host.memory.pointer(input));
    // SAFETY: as above.
    unsafe {
        match input.byte() % 3 {
            0 => (table.get_ring_direct_descriptors)(fd, place.cast()),
            1 => (table.register_memory_on_ring)(fd, place.cast(), input.len(), place.cast()),
            _ => (table.deregister_memory_on_ring)(fd, place.cast(), input.len()),
        }
    };
}

/// `ioctl`: the pool is there already, so no function is ever called.
fn messages(world: &World<'_>, input: &mut Input<'_>) {
    let kind = if input.byte().is_multiple_of(2) {
        2900
    } else {
        input.int()
    };
    let len = match input.byte() % 4 {
        0 => input.len(),
        _ => usize::from(input.byte() % 48),
    };
    let words = [len, kind as usize, input.len(), input.len(), input.len()];
    let place = world.host.memory.place(&words, input);
    let len = match input.byte() % 4 {
        0 => input.len(),
        _ => usize::from(input.byte() % 48),
    };
    // SAFETY: as above.
    unsafe { (world.host.table.ioctl)(place.cast(), len) };
}

fn options(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let (memory, name) = (
        world.host.memory,
        OPTIONS[usize::from(input.byte()) % OPTIONS.len()],
    );
    let words = [
        input.int(),
        input.int(),
        input.int(),
        input.int(),
        input.int(),
    ];
    let place = memory.place(&words, input);
    let len = match input.byte() % 2 {
        0 => input.int().cast_unsigned(),
        _ => [4, 8, 12, 20][usize::from(input.byte() % 4)],
    };
    let level = libc::SOL_SOCKET;
    // SAFETY: as above.
    unsafe {
        match input.byte() % 3 {
            0 => libc::getsockopt(fd, level, name, place.cast(), memory.place(&[len], input)),
            _ => libc::setsockopt(fd, level, name, place.cast(), len),
        }
    };
}

fn send_dummy(world: &World<'_>, fd: c_int, input: &mut Input<'_>) {
    let to = peer::address([10, 77, 0, 1], input.short());
    let (place, len) = (world.host.memory.pointer(input), input.len());
    let flags = DUMMY | libc::MSG_DONTWAIT;
    // SAFETY: as above; the address is readable for its length.
    unsafe {
        match input.byte() % 2 {
            0 => libc::send(fd, place.cast(), len, flags),
            _ => {
                let to_len = size_of_val(&to) as u32;
                libc::sendto(fd, place.cast(), len, flags, (&raw const to).cast(), to_len)
            }
        }
    };
}
