//! Prints what netconf knows of this network namespace, and the route to an address if one is
//! given: `cargo run -p netconf --example show [address]`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::env;
use std::error::Error;

use netconf::{Netconf, RouteQuery};

fn main() -> Result<(), Box<dyn Error>> {
    let netconf = Netconf::open()?;
    for link in netconf.links() {
        println!("{link:?}");
        for address in netconf.addresses_of(link.index) {
            println!("    {}/{}", address.address, address.prefix_len);
        }
    }
    for neighbour in netconf.neighbours() {
        println!("{neighbour:?}");
    }
    if let Some(destination) = env::args().nth(1) {
        println!(
            "{:?}",
            netconf.route(&RouteQuery::to(destination.parse()?))?
        );
    }
    Ok(())
}
