//! Services that root starts and that give up its rights themselves: memcached, mosquitto.

use std::time::Duration;

use testkit::or_skip;

use crate::lab::Lab;

/// The broker goes by who has started them.
#[test]
fn who_gives_up_rights_first_is_past_the_kernel() {
    let lab = or_skip!(Lab::new(""));
    for (port, late) in [(7001, &[][..]), (7002, &["late"])] {
        let server = lab.server_becoming("65533", port, late);
        lab.traffic(port, Duration::from_secs(1)).assert_whole();
        let sockets = server.sockets();
        assert!(sockets.iter().all(|it| it.offloaded), "{sockets:?}");
        assert!(server.packets() > 100, "{sockets:?}");
    }
}
