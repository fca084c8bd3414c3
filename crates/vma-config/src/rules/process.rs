//! The rules that one process follows.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::matching::glob_matches;
use super::{Role, Rule, RuleError, RuleFile, Statement, Transport};

/// The rules of a process in the order in which they are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessRules {
    rules: Vec<ProcessRule>,
}

/// A rule and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRule {
    /// Counts the rules of the process from 1, in the order in which they came into force.
    pub number: u32,
    /// The rule.
    pub rule: Rule,
    origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    File { path: Arc<str>, line: u32 },
    Program,
}

impl ProcessRules {
    /// No rules.
    pub const NONE: Self = Self { rules: Vec::new() };

    /// The rules of `file`, which was read from `path`, for a process that runs `program` (without
    /// its directory) with this `VMA_APPLICATION_ID`.
    pub fn new(file: &RuleFile, path: &str, program: &str, application_id: &str) -> Self {
        let path: Arc<str> = path.into();
        let mut current = ("*", "*");
        let mut followed = None;
        let mut rules = Vec::new();
        for located in &file.statements {
            match &located.statement {
                Statement::ApplicationId { program, id } => current = (program, id),
                Statement::Log { .. } => continue,
                Statement::Use(_) => {}
            }
            let (pattern, id) = current;
            let id_matches = id == "*" || application_id == "*" || id == application_id;
            // Rules from before any application-id make a group of their own.
            if followed.is_none() && id_matches && glob_matches(pattern, program) {
                followed = Some(current);
            }
            if let Statement::Use(rule) = &located.statement
                && followed == Some(current)
            {
                let origin = Origin::File {
                    path: Arc::clone(&path),
                    line: located.line,
                };
                rules.push((rule.clone(), origin));
            }
        }
        let rules = (1..)
            .zip(rules)
            .map(|(number, (rule, origin))| ProcessRule {
                number,
                rule,
                origin,
            });
        Self {
            rules: rules.collect(),
        }
    }

    /// These rules behind those of `text`, which come first. A rule further down in the text comes
    /// before those above it.
    ///
    /// # Errors
    /// The text is not made of rules; then nothing changes.
    pub fn with_first(&self, text: &str) -> Result<Self, RuleError> {
        let file = RuleFile::parse(text);
        if let Some(error) = file.errors.into_iter().next() {
            return Err(error);
        }
        let mut all = self.clone();
        for located in file.statements {
            let Statement::Use(rule) = located.statement else {
                return Err(RuleError {
                    line: located.line,
                    column: 1,
                    expected: "a rule (use ...)",
                    found: format!("\"{}\"", located.statement),
                });
            };
            let number = u32::try_from(all.rules.len() + 1).unwrap_or(u32::MAX);
            let rule = ProcessRule {
                number,
                rule,
                origin: Origin::Program,
            };
            all.rules.insert(0, rule);
        }
        Ok(all)
    }

    /// The rule that decides for a socket, or `None`: it is accelerated. `first` and `second` as in
    /// [`Rule`].
    pub fn find(
        &self,
        role: Role,
        first: SocketAddr,
        second: Option<SocketAddr>,
    ) -> Option<&ProcessRule> {
        self.of_role(role)
            .find(|rule| rule.rule.is_for(first, second))
    }

    /// The rule by which everything of a role goes through the kernel, whatever the addresses.
    pub fn leaves_all_to_os(&self, role: Role) -> Option<&ProcessRule> {
        self.of_role(role)
            .take_while(|rule| rule.leaves_to_os())
            .find(|rule| rule.rule.is_for_all())
    }

    /// Whether rules of a role are for some addresses only at this port, be they the host's or not.
    pub fn tell_addresses_apart(&self, role: Role, port: u16) -> bool {
        self.of_role(role)
            .any(|rule| rule.rule.first.is_for_some_at(port))
    }

    /// Every rule, in the order in which they are asked.
    pub fn iter(&self) -> impl Iterator<Item = &ProcessRule> {
        self.rules.iter()
    }

    fn of_role(&self, role: Role) -> impl Iterator<Item = &ProcessRule> {
        let says_something =
            |rule: &Rule| !matches!(rule.transport, Transport::Sdp | Transport::Sa);
        self.rules
            .iter()
            .filter(move |rule| rule.rule.role == role && says_something(&rule.rule))
    }
}

impl ProcessRule {
    /// Whether what the rule is for goes through the kernel.
    pub fn leaves_to_os(&self) -> bool {
        self.rule.transport == Transport::Os
    }

    /// Where the rule comes from, for an operator.
    pub fn origin(&self) -> String {
        match &self.origin {
            Origin::File { path, line } => format!("{path}:{line}"),
            Origin::Program => "added by the program".to_owned(),
        }
    }
}

impl fmt::Display for ProcessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" ({})", self.rule, self.origin())
    }
}
