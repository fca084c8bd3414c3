//! A segment that is expected against those that are sent.

use std::fmt::Write;

use crate::script::{IpFields, TcpOption, TcpSegment, Tos, flags};
use crate::stack::Segment;

/// One segment of a script; several on the wire may make it up, as segmentation offload would make
/// them from it.
pub(super) struct Expectation<'script> {
    wanted: &'script TcpSegment,
    ip: IpFields,
    strict: bool,
    any_push: bool,
    /// Octets seen so far.
    seen: u32,
}

impl<'script> Expectation<'script> {
    pub(super) fn new(
        wanted: &'script TcpSegment,
        ip: IpFields,
        strict: bool,
        any_push: bool,
    ) -> Self {
        Self {
            wanted,
            ip,
            strict,
            any_push,
            seen: 0,
        }
    }

    /// Takes the next segment; true if nothing is missing after it. The error tells which field
    /// differs.
    pub(super) fn accept(&mut self, actual: &Segment) -> Result<bool, String> {
        let wanted = self.wanted;
        let len = u32::try_from(actual.payload.len()).expect("a segment's length fits");
        let left = u32::from(wanted.len) - self.seen;
        let is_part = !self.strict && len > 0 && len < left;
        // Offload sets these on the last part, and CWR on the first.
        let mut open = if is_part { flags::FIN | flags::PSH } else { 0 };
        // Who sends may push more than must be pushed, and Linux does by the size of its buffers.
        if self.any_push || wanted.flags & flags::PSH == 0 {
            open |= flags::PSH;
        }
        if self.seen > 0 || wanted.ace.is_some() {
            open |= flags::CWR;
        }
        if wanted.ace.is_some() {
            open |= flags::ECE;
        }
        let premature = is_part && actual.flags & flags::FIN != 0;
        if (actual.flags ^ wanted.flags) & !open != 0 || premature {
            return Err("the flags differ".to_owned());
        }
        if let Some(ace) = wanted.ace
            && ace != (actual.flags >> 6 & 3) | u8::from(actual.ae) << 2
        {
            return Err("accurate ECN's bits differ".to_owned());
        }
        compare(
            "sequence number",
            wanted.seq.wrapping_add(self.seen),
            actual.seq,
        )?;
        if !is_part {
            compare("length", left, len)?;
        }
        compare("acknowledgement number", wanted.ack, actual.ack)?;
        if let Some(window) = wanted.window {
            compare("window", window.into(), actual.window.into())?;
        }
        compare("urgent pointer", wanted.urgent.into(), actual.urgent.into())?;
        self.compare_tos(actual.tos)?;
        if let Some(options) = &wanted.options
            && !same_options(options, &actual.options)
        {
            return Err("the options differ".to_owned());
        }
        self.seen += len;
        Ok(!is_part)
    }

    fn compare_tos(&self, actual: u8) -> Result<(), String> {
        match self.ip.tos {
            None => Ok(()),
            Some(Tos::Ecn(bits)) => compare("ECN field", bits.into(), (actual & 3).into()),
            Some(Tos::EitherEct) if matches!(actual & 3, 1 | 2) => Ok(()),
            Some(Tos::EitherEct) => Err("the ECN field is not ECT".to_owned()),
            Some(Tos::Byte(byte)) => compare("traffic class", byte.into(), actual.into()),
        }
    }

    /// What is still missing, as a script has it.
    pub(super) fn describe_rest(&self) -> String {
        let wanted = self.wanted;
        let window = wanted.window;
        let rest = wanted
            .len
            .saturating_sub(u16::try_from(self.seen).unwrap_or(u16::MAX));
        render(
            wanted.flags,
            (wanted.seq.wrapping_add(self.seen), u32::from(rest)),
            wanted.ack,
            window,
            wanted.urgent,
            wanted.options.as_deref(),
        )
    }
}

fn compare(what: &str, wanted: u32, actual: u32) -> Result<(), String> {
    if wanted == actual {
        return Ok(());
    }
    Err(format!("the {what} differs: {actual} instead of {wanted}"))
}

/// Equal in order and value; the sender's own timestamps are compared elsewhere, and the echoed one
/// is exact.
fn same_options(wanted: &[TcpOption], actual: &[TcpOption]) -> bool {
    let is_echo_of = |wanted: &TcpOption, actual: &TcpOption| match (wanted, actual) {
        (TcpOption::Timestamp { ecr: wanted, .. }, TcpOption::Timestamp { ecr: actual, .. }) => {
            wanted == actual
        }
        _ => wanted == actual,
    };
    wanted.len() == actual.len()
        && wanted
            .iter()
            .zip(actual)
            .all(|(wanted, actual)| is_echo_of(wanted, actual))
}

/// A segment as a script has it.
pub fn describe(segment: &Segment) -> String {
    let len = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
    let mut text = match segment.tos & 3 {
        0 => String::new(),
        1 => "[ect1] ".to_owned(),
        2 => "[ect0] ".to_owned(),
        _ => "[ce] ".to_owned(),
    };
    text += &render(
        segment.flags,
        (segment.seq, len),
        segment.ack,
        Some(segment.window),
        segment.urgent,
        Some(&segment.options),
    );
    text
}

fn render(
    bits: u8,
    (seq, len): (u32, u32),
    ack: u32,
    window: Option<u16>,
    urgent: u16,
    options: Option<&[TcpOption]>,
) -> String {
    const LETTERS: [(u8, char); 8] = [
        (flags::FIN, 'F'),
        (flags::SYN, 'S'),
        (flags::RST, 'R'),
        (flags::PSH, 'P'),
        (flags::URG, 'U'),
        (flags::ECE, 'E'),
        (flags::CWR, 'W'),
        (flags::ACK, '.'),
    ];
    let mut text = String::from("> ");
    text.extend(
        LETTERS
            .iter()
            .filter(|(bit, _)| bits & bit != 0)
            .map(|(_, letter)| letter),
    );
    if bits == 0 {
        text.push('-');
    }
    let written = (|| {
        write!(text, " {seq}:{}({len})", seq.wrapping_add(len))?;
        if bits & flags::ACK != 0 || ack != 0 {
            write!(text, " ack {ack}")?;
        }
        if let Some(window) = window {
            write!(text, " win {window}")?;
        }
        if urgent != 0 {
            write!(text, " urg {urgent}")?;
        }
        match options {
            None => write!(text, " <...>"),
            Some([]) => Ok(()),
            Some(options) => {
                let options: Vec<String> = options.iter().map(option).collect();
                write!(text, " <{}>", options.join(","))
            }
        }
    })();
    written.expect("writing to a string does not fail");
    text
}

fn option(option: &TcpOption) -> String {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    match option {
        TcpOption::End => "eol".to_owned(),
        TcpOption::Nop => "nop".to_owned(),
        TcpOption::Mss(size) => format!("mss {size}"),
        TcpOption::WindowScale(shift) => format!("wscale {shift}"),
        TcpOption::SackPermitted => "sackOK".to_owned(),
        TcpOption::Sack(blocks) => {
            let blocks: Vec<String> = blocks
                .iter()
                .map(|(left, right)| format!("{left}:{right}"))
                .collect();
            format!("sack {}", blocks.join(" "))
        }
        TcpOption::Timestamp { val, ecr } => format!("TS val {val} ecr {ecr}"),
        TcpOption::FastOpen(cookie) => format!("FO {}", hex(cookie)),
        TcpOption::FastOpenExperimental(cookie) => format!("FOEXP {}", hex(cookie)),
        TcpOption::Md5(digest) => format!("md5 {}", hex(digest)),
        TcpOption::AccurateEcn(counters) => {
            let counters: Vec<String> = counters
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            format!("ECN {}", counters.join(" "))
        }
    }
}
