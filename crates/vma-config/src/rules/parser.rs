//! Text to statements, a line at a time.

use std::net::{IpAddr, Ipv4Addr};

use super::cursor::Cursor;
use super::{
    Endpoint, Located, LogDestination, Network, Ports, Role, Rule, RuleError, RuleFile, Statement,
    Transport,
};

const STATEMENT: &str = "a statement (use, application-id or log)";
const PROGRAM: &str = "the name of a program, or *";
const ID: &str = "a user-defined id, or *";
const TRANSPORT: &str = "a transport (vma, os, sdp, sa or *)";
const ROLE: &str = "a role (tcp_server, tcp_client, udp_sender, udp_receiver or udp_connect)";
const ADDRESS: &str = "an address (a.b.c.d, a.b.c.d/prefix, [IPv6], [IPv6]/prefix or *)";
const OCTET: &str = "a number from 0 to 255";
const DOT: &str = "\".\" and the rest of the address";
const PREFIX: &str = "a prefix length from 0 to 32";
const V6: &str = "an IPv6 address and \"]\"";
const V6_PREFIX: &str = "a prefix length from 0 to 128";
const COLON: &str = "\":\" and the ports";
const PORTS: &str = "a port, a range of ports or *";
const PORT: &str = "a port from 0 to 65535";
const LAST_PORT: &str = "a port that is not below the first of the range, up to 65536";
const END: &str = "the end of the line";
const SECOND_OR_END: &str = "the end of the line, or \":\" and the local address";
const ONE_ADDRESS: &str = "the end of the line: this role has one address only";
const LOG_OPTION: &str = "destination, min-level or the end of the line";
const DESTINATION: &str = "a destination (stderr, syslog or file)";
const FILE_NAME: &str = "the name of a file";
const LEVEL: &str = "a number from 0 to 4294967295";

impl RuleFile {
    /// Reads the text of a file. Takes time in proportion to its length.
    pub fn parse(text: &str) -> Self {
        let mut file = Self::default();
        // Below an application-id that was not understood.
        let mut orphaned = false;
        for (line, text) in (1..).zip(text.split('\n')) {
            let mut cursor = Cursor::new(text);
            if cursor.is_at_end() {
                continue;
            }
            let names_program = is_application_id(cursor);
            match statement(&mut cursor) {
                Ok(statement) => {
                    orphaned &= !names_program;
                    if !orphaned || !matches!(statement, Statement::Use(_)) {
                        file.statements.push(Located { line, statement });
                    }
                }
                Err(expected) => {
                    orphaned |= names_program;
                    file.errors.push(RuleError {
                        line,
                        column: cursor.column(),
                        expected,
                        found: cursor.found(),
                    });
                }
            }
        }
        file
    }
}

fn is_application_id(mut cursor: Cursor<'_>) -> bool {
    cursor.word() == Some("application-id")
}

/// What should stand at the cursor.
type Expected = &'static str;

fn statement(cursor: &mut Cursor<'_>) -> Result<Statement, Expected> {
    let before = *cursor;
    let (statement, end) = match cursor.word() {
        Some("application-id") => {
            let program = cursor.name().ok_or(PROGRAM)?.to_owned();
            let id = cursor.name().ok_or(ID)?.to_owned();
            (Statement::ApplicationId { program, id }, END)
        }
        Some("use") => {
            let rule = rule(cursor)?;
            let end = match (rule.role.has_second(), rule.second) {
                (true, None) => SECOND_OR_END,
                (true, Some(_)) => END,
                (false, _) => ONE_ADDRESS,
            };
            (Statement::Use(rule), end)
        }
        Some("log") => (log(cursor)?, LOG_OPTION),
        _ => {
            *cursor = before;
            return Err(STATEMENT);
        }
    };
    if cursor.is_at_end() {
        Ok(statement)
    } else {
        Err(end)
    }
}

fn log(cursor: &mut Cursor<'_>) -> Result<Statement, Expected> {
    let (mut destination, mut min_level) = (None, None);
    loop {
        let before = *cursor;
        match cursor.word() {
            Some("destination") => {
                let before = *cursor;
                // The original's own words have a y in front; its documentation has not.
                destination = Some(match cursor.word() {
                    Some("stderr" | "ystderr") => LogDestination::Stderr,
                    Some("syslog") => LogDestination::Syslog,
                    Some("file" | "yfile") => {
                        LogDestination::File(cursor.name().ok_or(FILE_NAME)?.to_owned())
                    }
                    _ => {
                        *cursor = before;
                        return Err(DESTINATION);
                    }
                });
            }
            Some("min-level") => min_level = Some(number(cursor, u32::MAX).ok_or(LEVEL)?),
            _ => {
                *cursor = before;
                return Ok(Statement::Log {
                    destination,
                    min_level,
                });
            }
        }
    }
}

fn rule(cursor: &mut Cursor<'_>) -> Result<Rule, Expected> {
    let transport = one_of(cursor, &Transport::WORDS).ok_or(TRANSPORT)?;
    let role = one_of(cursor, &Role::WORDS).ok_or(ROLE)?;
    let first = endpoint(cursor)?;
    let second = if role.has_second() && cursor.symbol(':') {
        Some(endpoint(cursor)?)
    } else {
        None
    };
    Ok(Rule {
        transport,
        role,
        first,
        second,
    })
}

fn one_of<T: Copy>(cursor: &mut Cursor<'_>, words: &[(T, &str)]) -> Option<T> {
    let before = *cursor;
    let found = cursor
        .word()
        .and_then(|word| words.iter().find(|(_, known)| *known == word));
    if found.is_none() {
        *cursor = before;
    }
    found.map(|(value, _)| *value)
}

fn endpoint(cursor: &mut Cursor<'_>) -> Result<Endpoint, Expected> {
    let network = network(cursor)?;
    if !cursor.symbol(':') {
        return Err(COLON);
    }
    Ok(Endpoint {
        network,
        ports: ports(cursor)?,
    })
}

fn network(cursor: &mut Cursor<'_>) -> Result<Option<Network>, Expected> {
    if cursor.symbol('*') {
        return Ok(None);
    }
    if cursor.symbol('[') {
        let address = cursor.address_v6().ok_or(V6)?;
        if !cursor.symbol(']') {
            return Err(V6);
        }
        let prefix_len = prefix_len(cursor, 128, V6_PREFIX)?;
        let address = IpAddr::V6(address);
        return Ok(Some(Network {
            address,
            prefix_len,
        }));
    }
    let mut octets = [0; 4];
    for (index, octet) in octets.iter_mut().enumerate() {
        if index > 0 && !cursor.symbol('.') {
            return Err(DOT);
        }
        let number = number(cursor, u8::MAX.into());
        let number = number.ok_or(if index > 0 { OCTET } else { ADDRESS })?;
        *octet = u8::try_from(number).unwrap_or(u8::MAX);
    }
    Ok(Some(Network {
        address: IpAddr::V4(Ipv4Addr::from(octets)),
        prefix_len: prefix_len(cursor, 32, PREFIX)?,
    }))
}

/// Without one it is the longest.
fn prefix_len(cursor: &mut Cursor<'_>, longest: u8, expected: Expected) -> Result<u8, Expected> {
    if !cursor.symbol('/') {
        return Ok(longest);
    }
    let number = number(cursor, longest.into()).ok_or(expected)?;
    Ok(u8::try_from(number).unwrap_or(longest))
}

fn ports(cursor: &mut Cursor<'_>) -> Result<Option<Ports>, Expected> {
    if cursor.symbol('*') {
        return Ok(None);
    }
    let is_number = cursor.clone().digits().is_some();
    let first = number(cursor, u16::MAX.into()).ok_or(if is_number { PORT } else { PORTS })?;
    let mut last = first;
    if cursor.symbol('-') {
        let before = *cursor;
        // The manual allows 65536 as the end of a range.
        last = number(cursor, 65_536).ok_or(LAST_PORT)?;
        if last < first {
            *cursor = before;
            return Err(LAST_PORT);
        }
    }
    let port = |number| u16::try_from(number).unwrap_or(u16::MAX);
    Ok(Some(Ports {
        first: port(first),
        last: port(last),
    }))
}

/// A number of at most `max`; otherwise the cursor stays in front of what is there.
fn number(cursor: &mut Cursor<'_>, max: u32) -> Option<u32> {
    let before = *cursor;
    let number = cursor
        .digits()
        .and_then(|digits| digits.parse().ok())
        .filter(|number| *number <= max);
    if number.is_none() {
        *cursor = before;
    }
    number
}
