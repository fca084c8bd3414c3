//! Which packets are captured: the common words of pcap-filter(7), and `fd`.

use std::net::IpAddr;

use stats::{Direction, PROTOCOL_TCP, PROTOCOL_UDP};

use super::packet::Headers;

/// What a filter asks about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) headers: Option<Headers>,
    pub(super) direction: Direction,
    /// On its way.
    pub(super) len: u32,
    /// Of the sockets whose it is, or may be.
    pub(super) fds: &'a [i32],
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Every,
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Version(bool),
    Protocol(u32),
    Going(Going),
    Longer(u32),
    Shorter(u32),
    Fd(i32),
    Host(End, IpAddr),
    Net(End, IpAddr, u8),
    Ports(End, u16, u16),
}

/// A direction, to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    In,
    Out,
}

/// Which end of a packet is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
    Either,
    Both,
}

impl Filter {
    /// # Errors
    /// What is wrong with the expression.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let text = words.join(" ");
        let mut spaced = String::new();
        for character in text.chars() {
            match character {
                '(' | ')' | '!' => spaced.extend([' ', character, ' ']),
                other => spaced.push(other),
            }
        }
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        if tokens.is_empty() {
            return Ok(Self::Every);
        }
        let mut parser = Parser {
            tokens: &tokens,
            last: None,
            depth: 0,
        };
        let filter = parser.expression()?;
        match parser.tokens.first() {
            None => Ok(filter),
            Some(word) => Err(format!("filter: '{word}' is not expected there")),
        }
    }

    pub(super) fn takes(&self, subject: &Subject<'_>) -> bool {
        let ends = |end: End, is_it: &dyn Fn(std::net::SocketAddr) -> bool| {
            subject.headers.is_some_and(|headers| {
                let (source, destination) = (is_it(headers.source), is_it(headers.destination));
                match end {
                    End::Source => source,
                    End::Destination => destination,
                    End::Either => source || destination,
                    End::Both => source && destination,
                }
            })
        };
        match self {
            Self::Every => true,
            Self::And(one, other) => one.takes(subject) && other.takes(subject),
            Self::Or(one, other) => one.takes(subject) || other.takes(subject),
            Self::Not(one) => !one.takes(subject),
            Self::Version(is_v6) => subject
                .headers
                .is_some_and(|headers| headers.source.is_ipv6() == *is_v6),
            Self::Protocol(number) => subject
                .headers
                .is_some_and(|headers| headers.protocol == *number),
            Self::Going(going) => (*going == Going::Out) == (subject.direction == Direction::Sent),
            Self::Longer(len) => subject.len >= *len,
            Self::Shorter(len) => subject.len <= *len,
            Self::Fd(fd) => subject.fds.contains(fd),
            Self::Host(end, address) => ends(*end, &|it| it.ip() == *address),
            Self::Net(end, address, bits) => ends(*end, &|it| is_in(it.ip(), *address, *bits)),
            Self::Ports(end, first, last) => {
                ends(*end, &|it| (*first..=*last).contains(&it.port()))
            }
        }
    }
}

/// Whether the first bits are the same.
fn is_in(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (address, net) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.checked_shr(32 - bits.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.checked_shr(128 - bits.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// What stands before a value. pcap's rule: a value without it has that of the value before.
#[derive(Clone, Copy)]
struct Qualifiers {
    protocol: Option<&'static str>,
    end: End,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
}

struct Parser<'t> {
    tokens: &'t [&'t str],
    last: Option<Qualifiers>,
    depth: u32,
}

/// Parentheses and negations within each other: each is a call here.
const DEPTH_MAX: u32 = 100;
const PROTOCOLS: [&str; 4] = ["ip", "ip6", "tcp", "udp"];

impl<'t> Parser<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn next_if(&mut self, is_it: impl Fn(&str) -> bool) -> Option<&'t str> {
        self.tokens.first().filter(|word| is_it(word))?;
        self.next()
    }

    fn value(&mut self, of: &str) -> Result<&'t str, String> {
        self.next()
            .ok_or_else(|| format!("filter: '{of}' wants a value"))
    }

    /// "And" and "or" bind alike, from the left, as in pcap.
    fn expression(&mut self) -> Result<Filter, String> {
        let mut filter = self.negation()?;
        loop {
            if self.next_if(|word| matches!(word, "or" | "||")).is_some() {
                filter = Filter::Or(Box::new(filter), Box::new(self.negation()?));
            } else if self.next_if(|word| matches!(word, "and" | "&&")).is_some() {
                filter = Filter::And(Box::new(filter), Box::new(self.negation()?));
            } else {
                return Ok(filter);
            }
        }
    }

    fn negation(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("filter: too many parentheses within each other".to_owned());
        }
        let filter = if self.next_if(|word| matches!(word, "not" | "!")).is_some() {
            Filter::Not(Box::new(self.negation()?))
        } else if self.next_if(|word| word == "(").is_some() {
            let filter = self.expression()?;
            self.next_if(|word| word == ")")
                .ok_or("filter: a ')' is missing")?;
            filter
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(filter)
    }

    fn primitive(&mut self) -> Result<Filter, String> {
        let Some(word) = self.tokens.first().copied() else {
            return Err("filter: something is missing at its end".to_owned());
        };
        match word {
            "inbound" => return self.alone(Filter::Going(Going::In)),
            "outbound" => return self.alone(Filter::Going(Going::Out)),
            "fd" => return self.numbered(word, Filter::Fd),
            "greater" => return self.numbered(word, Filter::Longer),
            "less" => return self.numbered(word, Filter::Shorter),
            _ => {}
        }
        let protocol = self.next_if(|word| PROTOCOLS.contains(&word));
        let protocol = protocol.and_then(|it| PROTOCOLS.into_iter().find(|known| *known == it));
        let end = self.end();
        let kind = self.kind();
        if let (Some(protocol), None, None) = (protocol, end, kind) {
            // "tcp" alone, or "tcp 10.0.0.1", which pcap does not know, either.
            return Ok(of_protocol(protocol));
        }
        let qualifiers = match (protocol, end, kind, self.last) {
            (None, None, None, Some(last)) => last,
            (protocol, end, kind, _) => Qualifiers {
                protocol,
                end: end.unwrap_or(End::Either),
                kind: kind.unwrap_or(Kind::Host),
            },
        };
        self.last = Some(qualifiers);
        let filter = qualifiers.with(self.value(word)?)?;
        Ok(match qualifiers.protocol {
            Some(protocol) => Filter::And(Box::new(of_protocol(protocol)), Box::new(filter)),
            None => filter,
        })
    }

    fn alone(&mut self, filter: Filter) -> Result<Filter, String> {
        self.next();
        Ok(filter)
    }

    fn numbered<N: std::str::FromStr>(
        &mut self,
        word: &str,
        filter: impl Fn(N) -> Filter,
    ) -> Result<Filter, String> {
        self.next();
        let value = self.value(word)?;
        let number = value.parse();
        number
            .map(filter)
            .map_err(|_| format!("filter: '{word} {value}' is no number"))
    }

    /// `src`, `dst`, `src or dst`, `src and dst`
    fn end(&mut self) -> Option<End> {
        let first = self.next_if(|word| matches!(word, "src" | "dst"))?;
        if let [joint @ ("or" | "and"), second @ ("src" | "dst"), ..] = self.tokens
            && *second != first
        {
            let end = match *joint {
                "or" => End::Either,
                _ => End::Both,
            };
            self.tokens = &self.tokens[2..];
            return Some(end);
        }
        Some(match first {
            "src" => End::Source,
            _ => End::Destination,
        })
    }

    fn kind(&mut self) -> Option<Kind> {
        let kinds = [
            ("host", Kind::Host),
            ("net", Kind::Net),
            ("portrange", Kind::PortRange),
            ("port", Kind::Port),
        ];
        let word = self.next_if(|word| kinds.iter().any(|(name, _)| *name == word))?;
        kinds.iter().find(|(name, _)| *name == word).map(|it| it.1)
    }
}

fn of_protocol(protocol: &str) -> Filter {
    match protocol {
        "ip" => Filter::Version(false),
        "ip6" => Filter::Version(true),
        "tcp" => Filter::Protocol(PROTOCOL_TCP),
        _ => Filter::Protocol(PROTOCOL_UDP),
    }
}

impl Qualifiers {
    fn with(&self, value: &str) -> Result<Filter, String> {
        let wrong = |what: &str| format!("filter: '{value}' is no {what}");
        let port = |text: &str| text.parse::<u16>().ok();
        match self.kind {
            Kind::Host => {
                let address = value
                    .parse()
                    .map_err(|_| wrong("address, and no word that this filter knows"))?;
                Ok(Filter::Host(self.end, address))
            }
            Kind::Net => {
                let (address, bits) = value.split_once('/').unwrap_or((value, ""));
                let address: IpAddr = address.parse().map_err(|_| wrong("network"))?;
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = match bits {
                    "" => Some(most),
                    bits => bits.parse().ok().filter(|bits| *bits <= most),
                };
                Ok(Filter::Net(
                    self.end,
                    address,
                    bits.ok_or_else(|| wrong("network"))?,
                ))
            }
            Kind::Port => {
                let port = port(value).ok_or_else(|| wrong("port"))?;
                Ok(Filter::Ports(self.end, port, port))
            }
            Kind::PortRange => {
                let ends = value.split_once('-');
                let ends = ends.and_then(|(first, last)| Some((port(first)?, port(last)?)));
                let (first, last) = ends
                    .filter(|(first, last)| first <= last)
                    .ok_or_else(|| wrong("range of ports"))?;
                Ok(Filter::Ports(self.end, first, last))
            }
        }
    }
}

#[cfg(test)]
mod tests;
