//! `floor server INTERFACE SECONDS` and `floor client INTERFACE PEER-MAC SECONDS`: prints one line
//! of JSON. The interface, usually one end of a veth pair in a namespace, is taken from the kernel
//! meanwhile.

use std::error::Error;
use std::ffi::CString;
use std::fs;
use std::time::Duration;

use dev_xdp::floor::Floor;

#[allow(clippy::print_stdout, reason = "the result goes to standard output")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server", interface, seconds] => {
            let count = open(interface)?.serve(Duration::from_secs_f64(seconds.parse()?));
            println!("{{\"role\":\"server\",\"rounds\":{count}}}");
        }
        ["client", interface, peer, seconds] => {
            let mac =
                mac(fs::read_to_string(format!("/sys/class/net/{interface}/address"))?.trim())?;
            let duration = Duration::from_secs_f64(seconds.parse()?);
            let mut round_trips = open(interface)?.measure(mac, self::mac(peer)?, duration);
            if round_trips.is_empty() {
                return Err("nothing came back: does the server run?".into());
            }
            round_trips.sort_unstable();
            let at = |permille: usize| round_trips[(round_trips.len() - 1) * permille / 1000];
            println!(
                "{{\"role\":\"client\",\"p50_nsec\":{},\"p99_nsec\":{},\"p999_nsec\":{},\"rounds\":{}}}",
                at(500),
                at(990),
                at(999),
                round_trips.len()
            );
        }
        _ => {
            return Err("usage: floor server IF SECONDS | floor client IF PEER-MAC SECONDS".into());
        }
    }
    Ok(())
}

fn open(interface: &str) -> Result<Floor, Box<dyn Error>> {
    let name = CString::new(interface)?;
    // SAFETY: the name ends with a null byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(format!("no interface {interface}").into());
    }
    Ok(Floor::open(index)?)
}

fn mac(text: &str) -> Result<[u8; 6], Box<dyn Error>> {
    let bytes: Result<Vec<u8>, _> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16))
        .collect();
    bytes?
        .try_into()
        .map_err(|_| format!("not a hardware address: {text}").into())
}
