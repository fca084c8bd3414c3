//! What comes while neither the program nor the library's thread polls, on the kernel and with the
//! library.

use std::io::Write;

use testkit::{
    Accelerated, Comparison, Namespace, Namespaces, SOON, Variant, c_program, eventually, or_skip,
    preloaded,
};

/// Only the program's own calls take anything in.
const UNPOLLED: &[Variant] = &[
    ("generic mode", &[("VMA_PROGRESS_ENGINE_INTERVAL", "0")]),
    (
        "native mode",
        &[
            ("VMA_PROGRESS_ENGINE_INTERVAL", "0"),
            ("VMA_XDP_MODE", "native"),
        ],
    ),
];

#[test]
fn datagrams_bear_the_time_of_their_arrival() {
    let comparison = or_skip!(Comparison::new());
    let program = c_program("options");
    comparison.assert_same(&program, &["stamped"], UNPOLLED);
}

/// What tells the interface's XDP program from others: a digest of its instructions.
fn tag_of_program(namespace: &Namespace) -> Option<String> {
    let mut command = namespace.command("ip");
    command.args(["-details", "-json", "link", "show", "dev", "vb"]);
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let tag = said.split_once("\"tag\":\"")?.1;
    Some(tag.split_once('"')?.0.to_owned())
}

#[test]
fn packets_are_stamped_only_while_a_socket_asks() {
    or_skip!(testkit::needs_xdp("stamps of frames"));
    let pair = or_skip!(Namespaces::pair());
    let command = preloaded(&pair.b, &c_program("stamp_switch")).unwrap();
    let mut sockets = Accelerated::start(command).unwrap();
    let mut input = sockets.process().stdin().unwrap();
    assert!(sockets.process().wait_for_output("bound", SOON));
    let plain = tag_of_program(&pair.b).expect("the program is there");
    for (number, (letter, what, stamps)) in (1..).zip([
        ('a', "one asks", true),
        ('b', "another does, too", true),
        ('c', "the first is closed", true),
        ('o', "the other stops asking", false),
        ('r', "a new one does not ask", false),
        ('a', "until it does", true),
        ('b', "and the other again", true),
        ('c', "one closed", true),
        ('f', "the other is the kernel's", false),
    ]) {
        write!(input, "{letter}").unwrap();
        let did = format!("did {number}\n");
        assert!(sockets.process().wait_for_output(&did, SOON), "{what}");
        let is_so = || tag_of_program(&pair.b).is_some_and(|tag| (tag != plain) == stamps);
        assert!(
            eventually(SOON, is_so),
            "{what}: {:?}",
            tag_of_program(&pair.b)
        );
    }
    drop(input);
    let finished = sockets.into_process().wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
}

/// Where the driver has it: in native mode. The program is another one only for as long as a socket
/// asks for that.
#[test]
fn the_driver_is_asked_for_the_devices_time_while_a_socket_asks() {
    or_skip!(testkit::needs_xdp("stamps of frames"));
    for (mode, has_drivers_word) in [("native", true), ("generic", false)] {
        let pair = or_skip!(Namespaces::pair());
        let mut command = preloaded(&pair.b, &c_program("stamp_switch")).unwrap();
        command.env("VMA_XDP_MODE", mode);
        let mut sockets = Accelerated::start(command).unwrap();
        let mut input = sockets.process().stdin().unwrap();
        assert!(sockets.process().wait_for_output("bound", SOON));
        let mut tags = vec![tag_of_program(&pair.b).expect("the program is there")];
        for (number, letter) in (1..).zip(['b', 'h', 'c', 'o']) {
            write!(input, "{letter}").unwrap();
            let did = format!("did {number}\n");
            assert!(sockets.process().wait_for_output(&did, SOON), "{letter}");
            tags.push(tag_of_program(&pair.b).unwrap());
        }
        let [plain, times, device_times, times_again, plain_again] = &tags[..] else {
            panic!("{tags:?}");
        };
        assert!(plain != times && plain == plain_again, "{mode}: {tags:?}");
        assert_eq!(times, times_again, "{mode}");
        assert_eq!(times != device_times, has_drivers_word, "{mode}: {tags:?}");
        drop(input);
        let finished = sockets.into_process().wait(SOON).unwrap();
        assert!(finished.status.success(), "{finished:?}");
    }
}
