//! Policy rules (`ip-rule(8)`), as far as a question for a route has to know them.

use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::connection::Connection;
use crate::error::Error;

/// Whether any rule for IPv4 asks for the transport protocol or a port.
pub(crate) fn any_by_flow(connection: &mut Connection) -> Result<bool, Error> {
    let mut rules = RuleMessage::default();
    rules.header.family = AddressFamily::Inet;
    let rules = RouteNetlinkMessage::GetRule(rules);
    connection.dump("list rules", &rules, |found: &mut bool, message| {
        *found |= match message.decode() {
            Ok(RouteNetlinkMessage::NewRule(rule)) => is_by_flow(&rule),
            // It may be one: to ask too precisely is right, too.
            _ => true,
        };
    })
}

fn is_by_flow(rule: &RuleMessage) -> bool {
    let is_it = |attribute: &RuleAttribute| {
        matches!(
            attribute,
            RuleAttribute::IpProtocol(_)
                | RuleAttribute::SourcePortRange(_)
                | RuleAttribute::DestinationPortRange(_)
        )
    };
    rule.attributes.iter().any(is_it)
}
