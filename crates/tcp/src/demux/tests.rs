use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn connections_are_found_by_both_ends() {
    let mut demux = Demux::new([9; 16]);
    let flows = [
        ("192.0.2.1:80", "192.0.2.2:1000"),
        ("192.0.2.1:80", "192.0.2.2:1001"),
        ("192.0.2.1:81", "192.0.2.2:1000"),
        ("192.0.2.3:80", "192.0.2.2:1000"),
        ("192.0.2.2:1000", "192.0.2.1:80"),
        ("[2001:db8::1]:80", "[2001:db8::2]:1000"),
        ("[2001:db8::1]:80", "[2001:db8::3]:1000"),
    ];
    for (value, (local, remote)) in (0..).zip(flows) {
        assert_eq!(demux.insert(address(local), address(remote), value), Ok(()));
    }
    assert_eq!(demux.len(), flows.len());
    for (value, (local, remote)) in (0..).zip(flows) {
        let (local, remote) = (address(local), address(remote));
        assert_eq!(demux.connection(local, remote), Some(value));
        assert_eq!(demux.insert(local, remote, 99), Err(value));
    }
    for (value, (local, remote)) in (0..).zip(flows) {
        let (local, remote) = (address(local), address(remote));
        assert_eq!(demux.remove(local, remote), Some(value));
        assert_eq!(demux.connection(local, remote), None);
    }
    assert!(demux.is_empty());
}

#[test]
fn a_listener_on_the_address_goes_before_one_on_all() {
    let mut demux = Demux::new([9; 16]);
    let (own, other) = (address("192.0.2.1:80"), address("192.0.2.3:80"));
    assert_eq!(demux.listener(own), None);
    assert_eq!(demux.listen(address("0.0.0.0:80"), 1), Ok(()));
    assert_eq!(demux.listen(own, 2), Ok(()));
    assert_eq!(demux.listen(own, 3), Err(2));
    assert_eq!(demux.listener(own), Some(2));
    assert_eq!(demux.listener(other), Some(1));
    assert_eq!(demux.listener(address("192.0.2.1:81")), None);
    assert_eq!(demux.listener(address("[2001:db8::1]:80")), None);
    assert_eq!(demux.unlisten(own), Some(2));
    assert_eq!(demux.listener(own), Some(1));
    assert_eq!(demux.connection(own, address("0.0.0.0:0")), None);
    assert_eq!(demux.listen(address("[::]:80"), 4), Ok(()));
    assert_eq!(demux.listener(address("[2001:db8::1]:80")), Some(4));
}
