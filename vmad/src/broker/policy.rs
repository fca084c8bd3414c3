//! Whom the broker serves: `/etc/vma/vmad.conf`.
//!
//! ```text
//! # Who is named here can send and receive any packet on the interface, as with CAP_NET_RAW.
//! allow group trading
//! allow user 1001 eth1 eth2
//! ```

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::process;

/// Where there is no such file.
const DEFAULT: &str = "allow group vma";

/// Rules; root is always served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Policy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    who: Who,
    /// As it was written.
    name: String,
    /// Names; none: all.
    interfaces: HashSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    User(u32),
    Group(u32),
    /// A name that the host does not know.
    Nobody,
}

/// Who a process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: u32,
    pub(super) groups: Vec<u32>,
}

/// What is wrong with the file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}: \"{token}\"")]
pub(crate) struct Malformed {
    file: String,
    line: usize,
    what: &'static str,
    token: String,
}

impl Policy {
    /// Reads the file, if there is one.
    pub(super) fn read(path: &Path) -> Result<Self, Malformed> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => DEFAULT.to_owned(),
            Err(error) => {
                return Err(Malformed {
                    file: path.display().to_string(),
                    line: 0,
                    what: "cannot be read",
                    token: error.to_string(),
                });
            }
        };
        let number = |database: &str, name: &str| number_of(database, name);
        Self::parse(&text, &path.display().to_string(), number)
    }

    /// `number`: that of a name in one of the host's files.
    fn parse(
        text: &str,
        file: &str,
        number: impl Fn(&str, &str) -> Option<u32>,
    ) -> Result<Self, Malformed> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let wrong = |what, token: Option<&str>| Malformed {
                file: file.to_owned(),
                line: index + 1,
                what,
                token: token.unwrap_or("end of line").to_owned(),
            };
            match words.next() {
                None => continue,
                Some("allow") => {}
                other => return Err(wrong("expected \"allow\"", other)),
            }
            let kind = words.next();
            let database = match kind {
                Some("user") => "/etc/passwd",
                Some("group") => "/etc/group",
                other => return Err(wrong("expected \"user\" or \"group\"", other)),
            };
            let name = words.next();
            let name = name.ok_or_else(|| wrong("expected a name or number", None))?;
            let known = name.parse().ok().or_else(|| number(database, name));
            let who = match (known, kind) {
                (Some(number), Some("user")) => Who::User(number),
                (Some(number), _) => Who::Group(number),
                (None, _) => Who::Nobody,
            };
            rules.push(Rule {
                who,
                name: format!("{} {name}", kind.unwrap_or_default()),
                interfaces: words.map(str::to_owned).collect(),
            });
        }
        Ok(Self { rules })
    }

    /// The user of a process is served, too.
    pub(super) fn allow_user_of(&mut self, pid: u32) {
        if let Some(user) = process::user(pid) {
            self.rules.push(Rule {
                who: Who::User(user),
                name: format!("user {user}"),
                interfaces: HashSet::new(),
            });
        }
    }

    /// Whether a process may have an interface.
    pub(super) fn allows(&self, process: &Credentials, interface: &str) -> bool {
        let applies = |rule: &Rule| match rule.who {
            Who::User(user) => user == process.user,
            Who::Group(group) => process.groups.contains(&group),
            Who::Nobody => false,
        };
        let covers =
            |rule: &Rule| rule.interfaces.is_empty() || rule.interfaces.contains(interface);
        process.user == 0 || self.rules.iter().any(|rule| applies(rule) && covers(rule))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("user root")?;
        for rule in &self.rules {
            write!(f, ", {}", rule.name)?;
            if rule.who == Who::Nobody {
                f.write_str(" (unknown here)")?;
            }
        }
        Ok(())
    }
}

/// The number of a name, in a file of lines with names first and numbers third.
fn number_of(database: &str, name: &str) -> Option<u32> {
    let text = fs::read_to_string(database).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Policy, String> {
        let number = |database: &str, name: &str| match (database, name) {
            ("/etc/passwd", "anna") => Some(1000),
            ("/etc/group", "vma") => Some(50),
            _ => None,
        };
        Policy::parse(text, "f", number).map_err(|error| error.to_string())
    }

    fn process(user: u32, groups: &[u32]) -> Credentials {
        Credentials {
            user,
            groups: groups.to_vec(),
        }
    }

    #[test]
    fn users_and_groups_are_allowed_some_or_all_interfaces() {
        let policy =
            parse("# who\nallow user anna eth0 eth1 # two\n\n  allow group vma\n").unwrap();
        assert!(policy.allows(&process(1000, &[]), "eth1"));
        assert!(!policy.allows(&process(1000, &[]), "eth2"));
        assert!(policy.allows(&process(7, &[1, 50]), "eth2"));
        assert!(!policy.allows(&process(7, &[1]), "eth0"));
        assert!(policy.allows(&process(0, &[]), "eth9"));
        assert_eq!(policy.to_string(), "user root, user anna, group vma");
    }

    #[test]
    fn a_number_needs_no_name_and_an_unknown_name_is_nobody_s() {
        let policy = parse("allow user 5\nallow group none").unwrap();
        assert!(policy.allows(&process(5, &[]), "x"));
        assert_eq!(
            policy.to_string(),
            "user root, user 5, group none (unknown here)"
        );
        assert!(!policy.allows(&process(6, &[]), "x"));
    }

    #[test]
    fn errors_name_file_line_and_token() {
        for (text, error) in [
            ("\nalow user x", "f:2: expected \"allow\": \"alow\""),
            (
                "allow everybody",
                "f:1: expected \"user\" or \"group\": \"everybody\"",
            ),
            (
                "allow user",
                "f:1: expected a name or number: \"end of line\"",
            ),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()));
        }
    }
}
