//! Says what comes to a UDP port before it is received, and keeps every other datagram.

#![allow(clippy::print_stdout, reason = "it shows what it sees")]

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vma_api::{Api, Verdict};

fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let socket = UdpSocket::bind(&address)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let Some(api) = Api::get() else {
        println!("no library");
        return Ok(());
    };
    let held = Arc::clone(&kept);
    api.watch(socket.as_fd(), move |packet| {
        println!("seen {} of {:?}", packet.octets().len(), packet.source());
        if let Ok(mut held) = held.lock()
            && held.len() < 2
        {
            held.extend(packet.hold());
        }
        Verdict::Receive
    })?;
    let mut buffer = [0; 2048];
    while let Ok(len) = socket.recv(&mut buffer) {
        println!("received {len}");
    }
    if let Ok(held) = kept.lock() {
        held.iter()
            .for_each(|packet| println!("kept {}", packet.len()));
    }
    api.unwatch(socket.as_fd())
}
