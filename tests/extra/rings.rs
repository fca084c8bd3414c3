//! Rings, their memory, and options of sockets at them.

use testkit::{Comparison, FORKING_VARIANTS, or_skip};

use crate::{said_in, with_echo};

fn said(comparison: &Comparison, case: &str) -> String {
    said_in(comparison, "extra_rings", case, &[])
}

#[test]
fn sockets_have_options_that_the_kernel_does_not_know() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "options"),
        "no tag yet: 0\n\
         0 of 4\n\
         tag: 0\n\
         told: 0\n\
         77 of 4\n\
         no tag: -1 EINVAL\n\
         nor this: -1 EINVAL\n\
         short: -1 EINVAL\n\
         no value: -1 EINVAL\n\
         unreadable: -1 EFAULT\n\
         no room: -1 EINVAL\n\
         of the kernel's: -1 ENOPROTOOPT\n\
         data: 0\n\
         the descriptor 1\n\
         memory for a ring: -1 EOPNOTSUPP\n\
         no more: 0\n\
         recv: 20\n  abcdefgh\n\
         recv: 12\n  abcdefgh\n\
         by the kernel: -1 EINVAL\n\
         end of options\n"
    );
}

#[test]
fn rings_are_known_and_moderated() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "rings"),
        "rings 1, given 1\n\
         moderation: 0\n\
         no ring: -1 EBADFD\n\
         arming: -1 EOPNOTSUPP\n\
         nothing: -1 EINVAL\n\
         no change: -1 EINVAL\n\
         register: -1 EOPNOTSUPP\n\
         deregister: -1 EOPNOTSUPP\n\
         queues: -1 EOPNOTSUPP\n\
         the ring: 1\n\
         recv: 20\n  abcdefgh\n\
         end of rings\n"
    );
}

#[test]
fn hostile_calls_cost_nothing_but_themselves() {
    let comparison = or_skip!(with_echo());
    for environment in [
        &[][..],
        &[("VMA_SOCKETXTREME", "1")],
        &[("VMA_RX_POLL", "0"), ("VMA_XDP_POOL_FRAMES", "2048")],
    ] {
        let said = said_in(&comparison, "extra_abuse", "hostile", environment);
        let expected = "afterwards: 20\n  abcdefgh\nend of hostile\n";
        assert_eq!(said, expected, "{environment:?}");
    }
}

#[test]
fn held_packets_outlive_forks_while_others_give_anything_back() {
    let comparison = or_skip!(with_echo());
    for (name, environment) in FORKING_VARIANTS {
        let said = said_in(&comparison, "extra_abuse", "forking", environment);
        let expected = "children: 0 wrong\n\
             held: 0 changed, 0 kept back, 0 twice\n\
             end of forking\n";
        assert_eq!(said, expected, "{name}");
    }
}

#[test]
fn frames_are_in_memory_of_the_programs() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "memory"),
        "no direction: -1 EINVAL\n\
         no function: -1 EINVAL\n\
         nothing: -1 EINVAL\n\
         a short one: 0\n\
         memory: 0\n\
         20 octets, without a copy 1, there 1: abcdefgh\n\
         free: 0\n\
         recv: 20\n  bcdefghi\n\
         too late: -1 EINVAL\n\
         child: 20\n  abcdefgh\n\
         child 0\n\
         recv: 20\n  cdefghij\n\
         end of memory\n"
    );
    assert_eq!(
        said(&comparison, "no_memory"),
        "memory: 0\n\
         recv: 20\n  abcdefgh\n\
         end of no_memory\n"
    );
}
