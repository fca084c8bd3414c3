//! What the modes of XDP take on an interface, asked of a neighbour, and what follows from that for
//! `VMA_XDP_MODE=auto`.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use dev_xdp::arp_round_trips::{self, Neighbour};
use dev_xdp::bpf::link::AttachMode;
use dev_xdp::measured_modes;
use netconf::{Link, NeighbourState, Netconf, RouteQuery};

/// Both modes, so often in turns: what the machine does meanwhile meets both.
const TURNS: usize = 2;
/// Of one mode in one turn.
const TIME: Duration = Duration::from_millis(25);
const ROUND_TRIPS_MAX: usize = 1000;
/// Fewer in all say nothing.
const ROUND_TRIPS_MIN: usize = 20;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Measured {
    /// No neighbour with an IPv4 address is known.
    NobodyToAsk,
    Modes {
        asked: IpAddr,
        native: Took,
        generic: Took,
        /// Why `VMA_XDP_MODE=auto` will not know of it.
        not_kept: Option<String>,
    },
}

/// The median of a mode's round trips in nanoseconds, or why there is none.
pub(crate) type Took = Result<u32, String>;

/// The mode that `VMA_XDP_MODE=auto` shall take. `None`: neither works, or what they take differs
/// by less than a tenth, which the next measurement may turn round.
pub(crate) fn faster(native: &Took, generic: &Took) -> Option<AttachMode> {
    let takes_less = |one: u32, other: u32| u64::from(one) * 11 <= u64::from(other) * 10;
    match (native, generic) {
        (Ok(native), Ok(generic)) if takes_less(*native, *generic) => Some(AttachMode::Native),
        (Ok(native), Ok(generic)) if takes_less(*generic, *native) => Some(AttachMode::Generic),
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => None,
        (Ok(_), Err(_)) => Some(AttachMode::Native),
        (Err(_), Ok(_)) => Some(AttachMode::Generic),
    }
}

/// Measures, and writes down which mode is faster.
pub(crate) fn measure(netconf: &Netconf, link: &Link) -> Measured {
    let (Some(neighbour), Some(mac)) = (somebody(netconf, link), link.mac) else {
        return Measured::NobodyToAsk;
    };
    let mut all = [Ok(Vec::new()), Ok(Vec::new())];
    for _ in 0..TURNS {
        for (round_trips, attach) in all
            .iter_mut()
            .zip([AttachMode::Native, AttachMode::Generic])
        {
            let more =
                arp_round_trips::measure(link.index, attach, mac, neighbour, TIME, ROUND_TRIPS_MAX);
            match (round_trips.as_mut(), more) {
                (Ok(known), Ok(more)) => Vec::extend(known, more),
                (Ok(_), Err(error)) => *round_trips = Err(error.to_string()),
                (Err(_), _) => {}
            }
        }
    }
    let [native, generic] = all.map(|round_trips| round_trips.and_then(median));
    Measured::Modes {
        asked: neighbour.address.into(),
        not_kept: keep(link, mac, &native, &generic).err(),
        native,
        generic,
    }
}

fn median(mut round_trips: Vec<u32>) -> Took {
    if round_trips.len() < ROUND_TRIPS_MIN {
        return Err(format!("{} answers", round_trips.len()));
    }
    round_trips.sort_unstable();
    Ok(round_trips[round_trips.len() / 2])
}

/// The gateway if it is known, else who was heard of last.
fn somebody(netconf: &Netconf, link: &Link) -> Option<Neighbour> {
    let anywhere = RouteQuery::to(IpAddr::from([198, 51, 100, 1]));
    let gateway = netconf
        .route(&anywhere)
        .ok()
        .and_then(|route| route.gateway);
    let neighbours = netconf
        .neighbours()
        .filter(|it| it.link_index == link.index);
    let usable = neighbours.filter(|it| it.usable() && it.address.is_ipv4());
    let best = usable.min_by_key(|it| {
        let is_fresh = it.state == NeighbourState::Reachable;
        (Some(it.address) != gateway, !is_fresh, it.address)
    })?;
    match (best.address, best.mac) {
        (IpAddr::V4(address), Some(mac)) => Some(Neighbour { mac, address }),
        _ => None,
    }
}

fn keep(link: &Link, mac: [u8; 6], native: &Took, generic: &Took) -> Result<(), String> {
    let faster = faster(native, generic);
    let remark = format!(
        "{}: native {}, generic {}",
        link.name,
        words(native),
        words(generic)
    );
    let path = Path::new(measured_modes::FILE);
    measured_modes::record(path, mac, &dev_xdp::driver(&link.name), faster, &remark)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// For people.
pub(crate) fn words(took: &Took) -> String {
    match took {
        Ok(nsec) => format!("{}.{} us", nsec / 1000, nsec % 1000 / 100),
        Err(why) => format!("- ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_that_answers_sooner_is_faster() {
        let fails = || Err("no".to_owned());
        assert_eq!(faster(&Ok(10), &Ok(11)), Some(AttachMode::Native));
        assert_eq!(faster(&Ok(11), &Ok(10)), Some(AttachMode::Generic));
        assert_eq!(faster(&Ok(101), &Ok(110)), None);
        assert_eq!(faster(&fails(), &Ok(2)), Some(AttachMode::Generic));
        assert_eq!(faster(&Ok(2), &fails()), Some(AttachMode::Native));
        assert_eq!(faster(&fails(), &fails()), None);
    }

    #[test]
    fn few_answers_are_no_measurement() {
        assert_eq!(median(vec![5; 19]), Err("19 answers".to_owned()));
        assert_eq!(median((0..40).rev().collect()), Ok(20));
        assert_eq!(words(&Ok(12_345)), "12.3 us");
    }
}
