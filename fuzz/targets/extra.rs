//! The functions of the extra API (`vma_api_t`) with any arguments, in any order, on a datagram
//! socket, a stream, a listener and what is none of ours: packets that are held, given back twice,
//! by others, past the end of their sockets; a function that sees packets first and calls the
//! library. What is asked: nothing crashes, nothing hangs, and held packets stay what they are.
//! As `preloaded`, the program runs with libvma.so preloaded.

#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;

use world::Host;

#[path = "extra/calls.rs"]
mod calls;
#[path = "hooks/input.rs"]
mod input;
#[path = "hooks/memory.rs"]
#[allow(dead_code, reason = "for those that compare")]
mod memory;
#[path = "extra/peer.rs"]
mod peer;
#[path = "extra/world.rs"]
mod world;

thread_local! {
    static HOST: OnceCell<Host> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| HOST.with(|host| calls::run(host.get_or_init(Host::new), bytes)));
