//! Packets.

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::script::{Body, Icmp, IpFields, Packet, TcpOption, TcpSegment, Tos, flags};

impl Parser<'_> {
    /// A packet; its direction stands here.
    pub(super) fn packet(&mut self) -> Parsed<Packet> {
        let place = self.place();
        self.next();
        let mut ip = IpFields::default();
        for (open, close) in [('(', ')'), ('[', ']')] {
            if self.take(open) {
                self.ip_fields(&mut ip)?;
                self.expect(close)?;
                break;
            }
        }
        for encapsulation in ["ipv4", "ipv6", "gre", "GREv0", "mpls", "encap"] {
            if matches!(self.peek(), Token::Word(word) if word == encapsulation) {
                return Err((
                    self.place(),
                    format!("encapsulation ({encapsulation}) is not known here"),
                ));
            }
        }
        let body = if self.take_word("udp") {
            self.expect('(')?;
            let length = self.integer("a length")?;
            self.expect(')')?;
            Body::Udp(length)
        } else if self.take_word("icmp") {
            Body::Icmp(self.icmp()?)
        } else {
            Body::Tcp(self.tcp()?)
        };
        Ok(Packet { place, ip, body })
    }

    fn ip_fields(&mut self, ip: &mut IpFields) -> Parsed<()> {
        loop {
            let Token::Word(word) = self.peek().clone() else {
                return self.fail("a field of the IP header");
            };
            let ecn = |bits| Some(Tos::Ecn(bits));
            match word.as_str() {
                "noecn" => ip.tos = ecn(0),
                "ect1" => ip.tos = ecn(1),
                "ect0" => ip.tos = ecn(2),
                "ce" => ip.tos = ecn(3),
                "ect01" => ip.tos = Some(Tos::EitherEct),
                "tos" | "ttl" | "flowlabel" => {}
                _ => return self.fail("noecn, ect0, ect1, ect01, ce, tos, ttl or flowlabel"),
            }
            self.next();
            match word.as_str() {
                "tos" => ip.tos = Some(Tos::Byte(self.integer("a traffic class")?)),
                "ttl" => ip.ttl = Some(self.integer("a time to live")?),
                "flowlabel" => ip.flow_label = Some(self.integer("a flow label")?),
                _ => {}
            }
            if !self.take(',') {
                return Ok(());
            }
        }
    }

    fn icmp(&mut self) -> Parsed<Icmp> {
        let Token::Word(kind) = self.peek().clone() else {
            return self.fail("the kind of ICMP message");
        };
        self.next();
        let mut icmp = Icmp {
            kind,
            code: None,
            mtu: None,
            echo_id: None,
            echoed: None,
        };
        if let Token::Word(code) = self.peek().clone()
            && !["mtu", "id"].contains(&code.as_str())
        {
            self.next();
            icmp.code = Some(code);
        }
        if self.take_word("mtu") {
            icmp.mtu = Some(self.integer("an MTU")?);
        }
        if self.take_word("id") {
            icmp.echo_id = Some(self.integer("an identifier")?);
        }
        if self.take('[') {
            icmp.echoed = Some(self.sequence_range()?);
            self.expect(']')?;
        }
        Ok(icmp)
    }

    fn tcp(&mut self) -> Parsed<TcpSegment> {
        let mut segment = TcpSegment {
            options: Some(Vec::new()),
            ..TcpSegment::default()
        };
        if matches!(self.peek(), Token::Integer(_)) {
            let source = self.integer("a port")?;
            self.expect('>')?;
            segment.ports = Some((source, self.integer("a port")?));
        }
        self.flags(&mut segment)?;
        (segment.seq, segment.len) = self.sequence_range()?;
        if self.take_word("ack") {
            segment.ack = self.integer("an acknowledgement number")?;
        }
        if self.take_word("win") {
            segment.window = Some(self.integer("a window")?);
        }
        if self.take_word("urg") {
            segment.urgent = self.integer("an urgent pointer")?;
        }
        if self.take('<') {
            segment.options = self.options()?;
        }
        Ok(segment)
    }

    /// Such as `S`, `P.`, `.`, `-` (none), or `P.5` (with accurate ECN's bits).
    fn flags(&mut self, segment: &mut TcpSegment) -> Parsed<()> {
        if self.take('-') {
            return Ok(());
        }
        let mut any = false;
        if let Token::Word(letters) = self.peek().clone() {
            for letter in letters.chars() {
                segment.flags |= match letter {
                    'F' => flags::FIN,
                    'S' => flags::SYN,
                    'R' => flags::RST,
                    'P' => flags::PSH,
                    'U' => flags::URG,
                    'E' => flags::ECE,
                    'W' => flags::CWR,
                    _ => return self.fail("TCP flags of FSRPUEW"),
                };
            }
            self.next();
            any = true;
        }
        if self.take('.') {
            segment.flags |= flags::ACK;
            any = true;
        } else if let Token::Decimal(text) = self.peek().clone()
            && let Some(digit) = text.strip_prefix('.')
        {
            let ace = digit.parse().ok().filter(|ace| *ace < 8);
            if ace.is_none() {
                return self.fail("accurate ECN's bits, 0 to 7");
            }
            self.next();
            segment.ace = ace;
            segment.flags |= flags::ACK;
            any = true;
        }
        if any { Ok(()) } else { self.fail("TCP flags") }
    }

    /// `first:end(length)`, as first number and length.
    fn sequence_range(&mut self) -> Parsed<(u32, u16)> {
        let place = self.place();
        let first: u32 = self.integer("a sequence number")?;
        self.expect(':')?;
        let end: u32 = self.integer("a sequence number")?;
        self.expect('(')?;
        let length: u16 = self.integer("a length")?;
        self.expect(')')?;
        if first.wrapping_add(u32::from(length)) != end {
            let message = format!("{first} and {length} octets do not make {end}");
            return Err((place, message));
        }
        Ok((first, length))
    }

    /// Options until `>`; `...` for any.
    fn options(&mut self) -> Parsed<Option<Vec<TcpOption>>> {
        if *self.peek() == Token::Ellipsis {
            self.next();
            self.expect('>')?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            if self.take('>') {
                return Ok(Some(options));
            }
            if !self.take(',') {
                return self.fail("',' or '>'");
            }
        }
    }

    fn tcp_option(&mut self) -> Parsed<TcpOption> {
        let Token::Word(name) = self.peek().clone() else {
            return self.fail("a TCP option");
        };
        if ![
            "eol", "nop", "mss", "wscale", "sackOK", "sack", "TS", "FO", "FOEXP", "md5", "ECN",
        ]
        .contains(&name.as_str())
        {
            return self.fail("a TCP option");
        }
        self.next();
        Ok(match name.as_str() {
            "eol" => TcpOption::End,
            "nop" => TcpOption::Nop,
            "mss" => TcpOption::Mss(self.integer("a segment size")?),
            "wscale" => TcpOption::WindowScale(self.integer("a shift")?),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => TcpOption::Sack(self.sack_blocks()?),
            "TS" => self.timestamp()?,
            "FO" => TcpOption::FastOpen(self.hex_bytes()?),
            "FOEXP" => TcpOption::FastOpenExperimental(self.hex_bytes()?),
            "md5" => TcpOption::Md5(self.hex_bytes()?),
            _ => TcpOption::AccurateEcn(self.ecn_counters()?),
        })
    }

    fn timestamp(&mut self) -> Parsed<TcpOption> {
        if !self.take_word("val") {
            return self.fail("val");
        }
        let val = self.integer("a timestamp")?;
        if !self.take_word("ecr") {
            return self.fail("ecr");
        }
        let ecr = self.integer("a timestamp")?;
        Ok(TcpOption::Timestamp { val, ecr })
    }

    fn sack_blocks(&mut self) -> Parsed<Vec<(u32, u32)>> {
        let mut blocks = Vec::new();
        while matches!(self.peek(), Token::Integer(_)) {
            let left = self.integer("a sequence number")?;
            self.expect(':')?;
            blocks.push((left, self.integer("a sequence number")?));
        }
        if blocks.is_empty() {
            return self.fail("a SACK block");
        }
        Ok(blocks)
    }

    /// Bytes as pairs of digits; none if no digits stand here.
    fn hex_bytes(&mut self) -> Parsed<Vec<u8>> {
        let place = self.place();
        // As written: a number may begin with zeroes.
        let digits = match self.peek_written() {
            (Token::Word(_) | Token::Integer(_), text) => {
                self.next();
                text
            }
            _ => "",
        };
        let bytes: Option<Vec<u8>> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| {
                let pair = std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?;
                u8::from_str_radix(pair, 16).ok()
            })
            .collect();
        bytes.ok_or_else(|| (place, format!("{digits} is not a row of bytes")))
    }

    fn ecn_counters(&mut self) -> Parsed<Vec<(String, u32)>> {
        let mut counters = Vec::new();
        while let Token::Word(name) = self.peek().clone() {
            if !["e0b", "e1b", "ceb"].contains(&name.as_str()) {
                return self.fail("e0b, e1b or ceb");
            }
            self.next();
            counters.push((name, self.integer("a counter")?));
        }
        Ok(counters)
    }
}
