//! The flows of a run: the address of the command line, or those in the file of `-f`: one address a
//! line, `[U|T:]address:port[:source]` or `[U|T:]/path`.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::error::{Error, cannot_open};
use crate::net::address::{self, Address, Flow};
use crate::options::Target;

/// A line's parts, not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// `T` or `t`.
    pub stream: bool,
    /// Address, name or path.
    pub host: &'a str,
    /// Absent with a path.
    pub port: Option<u16>,
    /// The only sender whose messages are taken.
    pub source: Option<&'a str>,
}

/// A line that has none of the forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLine;

/// The longest line that is read.
const LINE_LEN_MAX: usize = 1024;

/// The flows of the command line, `default_host` standing in for a missing one.
pub fn flows_of(target: &Target, default_host: &str) -> Result<Vec<Flow>, Error> {
    match target {
        Target::One { host, port, stream } => {
            let host = host.as_deref().unwrap_or(default_host);
            Ok(vec![Flow {
                stream: *stream,
                address: Address::resolve(host, *port)?,
                source: None,
            }])
        }
        Target::File(path) => read(Path::new(path)),
    }
}

/// Reads the flows of a file and looks their names up. A flow that occurs twice counts once, unless
/// it is a stream: two of those are two connections.
pub fn read(path: &Path) -> Result<Vec<Flow>, Error> {
    let name = path.display();
    let is_file = fs::metadata(path).map(|metadata| metadata.is_file());
    match is_file {
        Ok(true) => {}
        Ok(false) => {
            return Err(Error::NoFile(format!(
                "Can't open file: {name} -not a regular file."
            )));
        }
        Err(error) => return Err(cannot_open(path, &error)),
    }
    let bytes = fs::read(path).map_err(|error| cannot_open(path, &error))?;
    let mut flows = Vec::new();
    for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let entry = parse_line(line).map_err(|BadLine| {
            Error::Input(format!(
                "Invalid input in line {}: each line must have the following format: ip:port or \
                 type:ip:port or type:ip:port:mc_src_ip",
                index + 1
            ))
        })?;
        let Some(entry) = entry else { continue };
        let flow = flow(&entry)?;
        if flow.stream || !flows.contains(&flow) {
            flows.push(flow);
        }
    }
    if flows.is_empty() {
        return Err(Error::Usage(format!("Feedfile '{name}' is empty!")));
    }
    Ok(flows)
}

/// Reads one line; `None` for empty lines and comments.
pub fn parse_line(line: &str) -> Result<Option<Entry<'_>>, BadLine> {
    if line.is_empty() || line.starts_with([' ', '\t', '\r', '#']) {
        return Ok(None);
    }
    if line.len() > LINE_LEN_MAX {
        return Err(BadLine);
    }
    let line = line.trim_end();
    let (stream, rest) = match line.split_once(':') {
        Some(("U" | "u", rest)) => (false, rest),
        Some(("T" | "t", rest)) => (true, rest),
        _ => (false, line),
    };
    if rest.starts_with('/') {
        return Ok(Some(Entry {
            stream,
            host: rest,
            port: None,
            source: None,
        }));
    }
    let (host, rest) = split_host(rest).ok_or(BadLine)?;
    let (port, source) = match rest.split_once(':') {
        None => (rest, None),
        Some((port, "")) | Some((port, "[]")) => (port, None),
        Some((port, source)) => (port, Some(brackets_off(source))),
    };
    let is_name = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:".contains(&byte);
        !text.is_empty() && text.bytes().all(is_plain)
    };
    if !is_name(host) || !source.is_none_or(is_name) || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadLine);
    }
    Ok(Some(Entry {
        stream,
        host,
        port: Some(port.parse().map_err(|_| BadLine)?),
        source,
    }))
}

/// The host, which may stand in brackets, and what follows its colon.
fn split_host(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:"),
        None => text.split_once(':'),
    }
}

fn brackets_off(text: &str) -> &str {
    text.strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text)
}

fn flow(entry: &Entry<'_>) -> Result<Flow, Error> {
    let address = match entry.port {
        None => Address::Unix(PathBuf::from(entry.host)),
        Some(port) => Address::Inet(address::resolve(entry.host, port)?),
    };
    let source = |host| address::resolve(host, 0).map(|address| address.ip());
    Ok(Flow {
        stream: entry.stream,
        address,
        source: entry.source.map(source).transpose()?.filter(is_given),
    })
}

/// 0.0.0.0 means any sender.
fn is_given(address: &IpAddr) -> bool {
    !address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(stream: bool, host: &str, port: u16) -> Entry<'_> {
        Entry {
            stream,
            host,
            port: Some(port),
            source: None,
        }
    }

    #[test]
    fn forms_of_a_line() {
        assert_eq!(
            parse_line("1.2.3.4:5"),
            Ok(Some(entry(false, "1.2.3.4", 5)))
        );
        assert_eq!(parse_line("U:a.b-c:5"), Ok(Some(entry(false, "a.b-c", 5))));
        assert_eq!(parse_line("t:host:5\r"), Ok(Some(entry(true, "host", 5))));
        assert_eq!(parse_line("T:[::1]:5"), Ok(Some(entry(true, "::1", 5))));
        let with_source = |host, source| {
            Ok(Some(Entry {
                source: Some(source),
                ..entry(false, host, 5)
            }))
        };
        assert_eq!(
            parse_line("U:224.1.1.1:5:10.0.0.1"),
            with_source("224.1.1.1", "10.0.0.1")
        );
        assert_eq!(
            parse_line("U:[ff02::1]:5:[fe80::1]"),
            with_source("ff02::1", "fe80::1")
        );
        assert_eq!(
            parse_line("T:/tmp/x"),
            Ok(Some(Entry {
                stream: true,
                host: "/tmp/x",
                port: None,
                source: None
            }))
        );
    }

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        for line in ["", "#x", " 1.2.3.4:5", "\r", "\t"] {
            assert_eq!(parse_line(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn other_lines_are_errors() {
        let long = format!("{}:5", "a".repeat(LINE_LEN_MAX));
        for line in [
            "1.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:65536",
            ":5",
            "X:1.2.3.4:5",
            "a b:5",
            "1.2.3.4:+5",
            "U:",
            "T:[::1:5",
            "1.2.3.4:5:a b",
            &long,
        ] {
            // An empty port would be a number of no digits.
            assert_eq!(parse_line(line), Err(BadLine), "{line:?}");
        }
    }
}
