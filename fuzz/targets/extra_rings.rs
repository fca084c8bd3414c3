//! As `extra`, in a program that takes packets and events by its rings (`VMA_SOCKETXTREME=1`).

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
