//! Whether a program, an address or a port is meant.

use std::net::{IpAddr, SocketAddr};

use super::{Endpoint, Network, Ports, Rule};

impl Rule {
    /// Whether the rule is for these addresses. A second address that the rule names but the socket
    /// does not have matches.
    pub fn is_for(&self, first: SocketAddr, second: Option<SocketAddr>) -> bool {
        self.first.is_for(first)
            && match (self.second, second) {
                (Some(rule), Some(address)) => rule.is_for(address),
                _ => true,
            }
    }

    /// Whether the rule is for every address and port.
    pub fn is_for_all(&self) -> bool {
        let all = |endpoint: &Endpoint| endpoint.network.is_none() && endpoint.ports.is_none();
        all(&self.first) && self.second.as_ref().is_none_or(all)
    }
}

impl Endpoint {
    fn is_for(&self, address: SocketAddr) -> bool {
        self.ports.is_none_or(|ports| ports.contain(address.port()))
            && self
                .network
                .is_none_or(|network| network.contains(address.ip()))
    }

    /// Whether it is for some addresses only, and for this port.
    pub(super) fn is_for_some_at(&self, port: u16) -> bool {
        self.network.is_some() && self.ports.is_none_or(|ports| ports.contain(port))
    }
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        // The first bits of either first.
        let bits = |address| match address {
            IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
            IpAddr::V6(ip) => u128::from(ip),
        };
        let host_bits = 128_u32.saturating_sub(self.prefix_len.into());
        let differ = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4()
            && differ.checked_shr(host_bits).unwrap_or(0) == 0
    }
}

impl Ports {
    fn contain(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// Whether `text` matches `pattern`, as fnmatch(3) says without flags: `*`, `?`, `[set]` and `\` in
/// front of a character that means itself. Takes time in proportion to the product of both lengths
/// at most.
pub(super) fn glob_matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on when a character does not match: behind the latest star, one character further
    // in the text.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(behind) = pattern.strip_prefix('*') {
            retry = Some((behind, text));
            pattern = behind;
            continue;
        }
        let mut characters = text.chars();
        let next = characters.next();
        match next.and_then(|character| match_one(pattern, character)) {
            Some(behind) => {
                pattern = behind;
                text = characters.as_str();
            }
            None if next.is_none() && pattern.is_empty() => return true,
            None => {
                let Some((behind_star, from)) = retry else {
                    return false;
                };
                let mut characters = from.chars();
                if characters.next().is_none() {
                    return false;
                }
                (pattern, text) = (behind_star, characters.as_str());
                retry = Some((pattern, text));
            }
        }
    }
}

/// What is left of the pattern if its first element, which is no star, matches the character.
fn match_one(pattern: &str, character: char) -> Option<&str> {
    let mut elements = pattern.chars();
    let matches = match elements.next()? {
        '?' => true,
        '[' => match match_set(elements.as_str(), character) {
            Some((matches, behind)) => {
                elements = behind.chars();
                matches
            }
            // Without its end it is no set.
            None => character == '[',
        },
        '\\' => elements.next()? == character,
        element => element == character,
    };
    matches.then_some(elements.as_str())
}

/// Whether a set, given from behind its `[`, has the character, and what is behind its `]`.
fn match_set(set: &str, character: char) -> Option<(bool, &str)> {
    let members = set.strip_prefix(['!', '^']);
    let negated = members.is_some();
    let mut rest = members.unwrap_or(set).chars();
    let mut found = false;
    let mut is_first = true;
    loop {
        let mut low = rest.next()?;
        if low == ']' && !is_first {
            return Some((found != negated, rest.as_str()));
        }
        is_first = false;
        if low == '\\' {
            low = rest.next()?;
        }
        let mut high = low;
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') {
            match ahead.next()? {
                ']' => {}
                '\\' => {
                    high = ahead.next()?;
                    rest = ahead;
                }
                end => {
                    high = end;
                    rest = ahead;
                }
            }
        }
        found |= (low..=high).contains(&character);
    }
}
