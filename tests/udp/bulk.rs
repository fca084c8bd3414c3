//! A sender without pauses: its datagrams go to the device in batches, and the last ones are not
//! forgotten.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use testkit::{Accelerated, Namespaces, Pair, or_skip, panic_unless_paused, preloaded};

const PORT: u16 = 7600;
const COUNT: u32 = 100_000;
/// Far more than the internal thread takes, far less than the half second after which it looks at
/// everything.
const LATE: Duration = Duration::from_millis(200);

/// Makes room for everything that is sent, however late the receiver runs.
fn make_room(socket: &UdpSocket) {
    let bytes: libc::c_int = 512 << 20;
    let len = libc::socklen_t::try_from(size_of_val(&bytes)).unwrap();
    // SAFETY: the kernel reads one integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            len,
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Takes what comes; returns the number of the last datagram, and when it came.
fn last_of(socket: &UdpSocket) -> (u32, Instant) {
    let mut last = (0, Instant::now());
    let mut buffer = [0; 4];
    while let Ok(4) = socket.recv(&mut buffer) {
        let number = u32::from_ne_bytes(buffer);
        if number != u32::MAX {
            last = (number, Instant::now());
        }
        if number == COUNT - 1 {
            break;
        }
    }
    last
}

#[test]
fn the_last_datagrams_of_a_bulk_sender_leave_soon() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let program = testkit::c_program("bulk");
        let peer = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, PORT)))
            .unwrap();
        make_room(&peer);
        peer.set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();

        let mut command = preloaded(&pair.b, &program).unwrap();
        command.args([
            &Pair::ADDRESS_A.to_string(),
            &PORT.to_string(),
            &COUNT.to_string(),
        ]);
        let mut sender = Accelerated::start(command).unwrap();
        let receiver = std::thread::spawn(move || last_of(&peer));
        let input = sender.process().stdin().unwrap();
        assert!(
            sender
                .process()
                .wait_for_output("sent", Duration::from_secs(60)),
            "{}",
            sender.process().stderr()
        );
        let sent = Instant::now();
        let (last, came) = receiver.join().unwrap();
        assert_eq!(last, COUNT - 1);
        let late = came.saturating_duration_since(sent);
        assert!(
            late < LATE,
            "the last datagram came {late:?} after the last call"
        );

        let rings = sender.reader().rings().unwrap();
        let (packets, kicks) = (rings[0].tx_packets, rings[0].tx_kicks);
        // The emulated card's thread is slower than who fills its queue: some went by the kernel.
        let keeps_up = !rings[0].mode.starts_with("mlx5");
        assert!(!keeps_up || packets >= u64::from(COUNT), "{packets}");
        // Without optimisation the library itself takes longer than what passes for a pause.
        if testkit::libvma_is_optimised() {
            assert!(kicks < packets, "{kicks} kicks for {packets} datagrams");
        }
        drop(input);
        let finished = sender.into_process().wait(Duration::from_secs(60)).unwrap();
        assert!(finished.status.success(), "{finished:?}");
    });
}
