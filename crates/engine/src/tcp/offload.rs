//! Which TCP sockets are accelerated: those that no rule of `libvma.conf` leaves to the kernel.

use std::net::SocketAddr;

use vma_config::rules::{ProcessRule, ProcessRules, Role};

use crate::sockets::offload::os_rule;

/// Whether any TCP socket may be accelerated, whatever the addresses.
pub fn may_accelerate(rules: &ProcessRules) -> bool {
    rules.leaves_all_to_os(Role::TcpClient).is_none()
        || rules.leaves_all_to_os(Role::TcpServer).is_none()
}

/// The rule by which a connection to `peer` is the kernel's.
pub(super) fn client_rule(
    rules: &ProcessRules,
    peer: SocketAddr,
    local: Option<SocketAddr>,
) -> Option<&ProcessRule> {
    os_rule(rules, Role::TcpClient, peer, local)
}

/// The rule by which listening at `local` is the kernel's.
pub(super) fn server_rule(rules: &ProcessRules, local: SocketAddr) -> Option<&ProcessRule> {
    os_rule(rules, Role::TcpServer, local, None)
}

/// Whether rules are for some addresses only, the host's or those that it may come to have.
pub(super) fn server_rules_tell_apart(rules: &ProcessRules, port: u16) -> bool {
    rules.tell_addresses_apart(Role::TcpServer, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> ProcessRules {
        ProcessRules::NONE.with_first(text).unwrap()
    }

    #[test]
    fn rules_leave_sockets_to_the_kernel() {
        let peer = "10.0.0.2:80".parse().unwrap();
        let local = "10.0.0.1:5000".parse().unwrap();
        let client = |rules: &ProcessRules| client_rule(rules, peer, Some(local)).is_none();
        let server = |rules: &ProcessRules| server_rule(rules, peer).is_none();
        for (text, may, expected) in [
            ("", true, (true, true)),
            ("use os udp_sender *:*", true, (true, true)),
            ("use os tcp_client *:*", true, (false, true)),
            ("use os tcp_server 10.0.0.0/24:80", true, (true, false)),
            (
                "use os tcp_server *:*\nuse os tcp_client *:*",
                false,
                (false, false),
            ),
            ("use vma tcp_client *:*", true, (true, true)),
            ("use os tcp_client 10.0.0.2:81", true, (true, true)),
            ("use os tcp_client *:*:*:5000", true, (false, true)),
        ] {
            let rules = rules(text);
            assert_eq!(may_accelerate(&rules), may, "{text}");
            assert_eq!((client(&rules), server(&rules)), expected, "{text}");
        }
        // The first that matches decides; those further down in an added text come first.
        let both = rules("use os tcp_client *:*\nuse vma tcp_client *:80");
        assert!(client(&both));
    }
    #[test]
    fn rules_tell_addresses_apart() {
        for (text, expected) in [
            ("", false),
            ("use os tcp_server *:*", false),
            ("use os tcp_server *:80", false),
            ("use os tcp_server 10.9.0.0/16:*", true),
            ("use os tcp_server 10.9.0.0/16:80", true),
            ("use os tcp_server 10.9.0.0/16:81-90", false),
            ("use vma tcp_server 10.9.0.0/16:80", true),
            ("use os tcp_client 10.9.0.0/16:80", false),
            (
                "use os tcp_server *:81\nuse os tcp_server 10.9.0.1:70-80",
                true,
            ),
        ] {
            assert_eq!(
                server_rules_tell_apart(&rules(text), 80),
                expected,
                "{text}"
            );
        }
    }
}
