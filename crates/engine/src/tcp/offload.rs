//! Which TCP sockets are accelerated: those for which a rule of `libvma.conf` says so, as yet.

use std::net::SocketAddrV4;

use vma_config::rules::{ProcessRule, ProcessRules, Role, Transport};

/// Whether a rule may accelerate a TCP socket.
pub fn has_rules(rules: &ProcessRules) -> bool {
    rules
        .iter()
        .any(|rule| rule.rule.role.is_tcp() && accelerates(rule))
}

/// The rule by which a connection to `peer` is accelerated. `Err`: the rule by which it is not, if there is one.
pub(super) fn client_rule(
    rules: &ProcessRules,
    peer: SocketAddrV4,
    local: Option<SocketAddrV4>,
) -> Result<&ProcessRule, Option<&ProcessRule>> {
    decided(rules.find(Role::TcpClient, peer, local))
}

/// The same for listening at `local`.
pub(super) fn server_rule(
    rules: &ProcessRules,
    local: SocketAddrV4,
) -> Result<&ProcessRule, Option<&ProcessRule>> {
    decided(rules.find(Role::TcpServer, local, None))
}

fn decided(found: Option<&ProcessRule>) -> Result<&ProcessRule, Option<&ProcessRule>> {
    match found {
        Some(rule) if accelerates(rule) => Ok(rule),
        other => Err(other),
    }
}

fn accelerates(rule: &ProcessRule) -> bool {
    matches!(rule.rule.transport, Transport::Vma | Transport::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> ProcessRules {
        ProcessRules::NONE.with_first(text).unwrap()
    }

    #[test]
    fn only_rules_accelerate() {
        let peer = "10.0.0.2:80".parse().unwrap();
        let local = "10.0.0.1:5000".parse().unwrap();
        let client = |rules: &ProcessRules| client_rule(rules, peer, Some(local)).is_ok();
        let server = |rules: &ProcessRules| server_rule(rules, peer).is_ok();
        for (text, has, expected) in [
            ("", false, (false, false)),
            ("use vma udp_sender *:*", false, (false, false)),
            ("use vma tcp_client *:*", true, (true, false)),
            ("use * tcp_server 10.0.0.0/24:80", true, (false, true)),
            ("use os tcp_client *:*", false, (false, false)),
            ("use vma tcp_client 10.0.0.2:81", true, (false, false)),
            ("use vma tcp_client *:*:*:5001", true, (false, false)),
        ] {
            let rules = rules(text);
            assert_eq!(has_rules(&rules), has, "{text}");
            assert_eq!((client(&rules), server(&rules)), expected, "{text}");
        }
        // The first that matches decides; those further down in an added text come first.
        let both = rules("use vma tcp_client *:*\nuse os tcp_client *:80");
        assert!(client_rule(&both, peer, None).is_err_and(|rule| rule.is_some()));
    }
}
