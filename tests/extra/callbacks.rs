//! A function of the program's that sees packets before calls receive them.

use testkit::{FORKING_VARIANTS, THREADED_VARIANTS, VARIANTS, Variant, or_skip};

use crate::{said_in, with_echo};

/// Each case says the same in every way to run the library.
fn says(case: &str, variants: &[Variant], expected: &str) -> Result<(), testkit::Skip> {
    let comparison = with_echo()?;
    for (name, environment) in variants {
        let said = said_in(&comparison, "extra_callback", case, environment);
        assert_eq!(said, expected, "{case} with {name}");
    }
    Ok(())
}

#[test]
fn a_function_is_told_of_each_datagram() {
    let expected = "no socket: -1 EINVAL\n\
         closed: -1 EINVAL\n\
         register: 0\n\
         \x20 datagram: 1 part of 20 octets, abcdefgh\n\
         \x20 info of 80: id 1, payload 20, queue 0 of 0, from 10.77.0.1:known, to self 1, stamped 0\n\
         \x20 datagram: 1 part of 20 octets, bcdefghi\n\
         \x20 info of 80: id 1, payload 20, queue 1 of 20, from 10.77.0.1:known, to self 1, stamped 0\n\
         first: 20\n\
         \x20 abcdefgh\n\
         second: 20\n\
         \x20 bcdefghi\n\
         \x20 datagram: 1 part of 12 octets, abcdefgh\n\
         \x20 info of 80: id 1, payload 12, queue 0 of 0, from 10.77.0.1:known, to self 1, stamped 1\n\
         stamped: 12\n\
         \x20 abcdefgh\n\
         none: -1 EAGAIN\n\
         again: 0\n\
         \x20 another context: 1 part of 12 octets, abcdefgh\n\
         \x20 info of 80: id 1, payload 12, queue 0 of 0, from 10.77.0.1:known, to self 1, stamped 1\n\
         third: 12\n\
         \x20 abcdefgh\n\
         no more: 0\n\
         unseen: 12\n\
         \x20 abcdefgh\n\
         told 4\n\
         end of facts\n";
    or_skip!(says("facts", VARIANTS, expected));
}

#[test]
fn it_says_what_becomes_of_a_datagram() {
    let expected = "dropped: poll 0, seen 3\n\
         nothing: -1 EAGAIN\n\
         one: 20\n\
         \x20 abcdefgh\n\
         two: 20\n\
         \x20 bcdefghi\n\
         seen 2\n\
         held: poll 1, seen 3\n\
         first abcdefgh\n\
         pending 0\n\
         of another: 3 wrong\n\
         given back: 0 wrong\n\
         twice: 3 wrong\n\
         poll 0, seen 1\n\
         not held: 1 wrong\n\
         unseen: pending 0, seen 0\n\
         passed: 20\n\
         \x20 abcdefgh\n\
         passed: 20\n\
         \x20 bcdefghi\n\
         seen 0\n\
         end of datagrams\n";
    or_skip!(says("datagrams", VARIANTS, expected));
}

#[test]
fn it_runs_in_calls_that_receive_or_wait() {
    let expected = "epoll_wait: 0\n\
         seen 1\n\
         select: 0\n\
         seen 2\n\
         recv: -1 EAGAIN\n\
         seen 3\n\
         of another: -1 EAGAIN\n\
         seen 4\n\
         without waiting: -1 EAGAIN\n\
         seen 5\n\
         epoll_wait: 1\n\
         received: 20\n\
         \x20 abcdefgh\n\
         an edge: 1\n\
         no other: 0\n\
         received: 20\n\
         \x20 abcdefgh\n\
         recv: 20\n\
         \x20 abcdefgh\n\
         seen 3\n\
         held in epoll_wait: 1\n\
         no other: 0\n\
         held in epoll_wait: 1\n\
         no other: 0\n\
         held in select: 1\n\
         readable 1\n\
         no other: 0\n\
         nothing: -1 EAGAIN\n\
         given back: 0 wrong\n\
         end of calls\n";
    or_skip!(says("calls", VARIANTS, expected));
}

#[test]
fn it_may_use_sockets_and_need_not_come_back() {
    let expected = "send\n\
         poll 0, seen 3\n\
         receive\n\
         \x20 of itself -1, of another 15\n\
         one: 20\n\
         \x20 abcdefgh\n\
         \x20 of itself -1, of another 15\n\
         two: 20\n\
         \x20 abcdefgh\n\
         unregister\n\
         \x20 unregister 0\n\
         in order: 20\n\
         \x20 abcdefgh\n\
         in order: 20\n\
         \x20 bcdefghi\n\
         in order: 20\n\
         \x20 cdefghij\n\
         seen 1\n\
         close\n\
         \x20 still abcdefgh\n\
         recv: -1 EBADF\n\
         seen 1\n\
         close\n\
         \x20 still abcdefgh\n\
         recv: -1 EBADF\n\
         seen 1\n\
         free\n\
         \x20 too early: -1 ENOENT\n\
         poll 1, seen 1\n\
         later: 0 wrong\n\
         jump\n\
         20 abcdefgh\n\
         20 bcdefghi\n\
         seen 2\n\
         exit\n\
         of a thread that has ended: 20\n\
         \x20 abcdefgh\n\
         the next: 20\n\
         \x20 bcdefghi\n\
         kernel\n\
         of the kernel's: 20\n\
         \x20 abcdefgh\n\
         end of inside\n";
    or_skip!(says("inside", VARIANTS, expected));
}

#[test]
fn it_sees_what_streams_bring() {
    let expected = "received: 8\n\
         \x20 question\n\
         dropped: poll 0, seen 1\n\
         nothing: -1 EAGAIN\n\
         held: poll 1, seen 1\n\
         held\n\
         given back: 0 wrong\n\
         twice: 1 wrong\n\
         poll 1, seen 1\n\
         seen 1\n\
         both: 6\n\
         \x20 onetwo..\n\
         pending 6, seen 0\n\
         passed: 6\n\
         \x20 unseen..\n\
         the end: 0\n\
         seen 1\n\
         \x20 still closing\n\
         closed: -1 EBADF\n\
         there: 13\n\
         \x20 to the k\n\
         4 left\n\
         end of streams\n";
    or_skip!(says("streams", VARIANTS, expected));
}

#[test]
fn what_it_holds_of_a_stream_keeps_the_window_closed() {
    let expected = "held as much as there is room for 1\n\
         given back: 0 wrong\n\
         held as much as there is room for 1\n\
         given back: 0 wrong\n\
         end of window\n";
    or_skip!(says("window", &VARIANTS[..1], expected));
}

#[test]
fn it_sees_one_packet_of_a_socket_at_a_time() {
    let expected = "seen 2000, received 2000, at once 0\n\
         end of threads\n";
    or_skip!(says("threads", THREADED_VARIANTS, expected));
}

#[test]
fn a_child_may_give_back_what_it_has_inherited() {
    let expected = "poll 1, seen 2\n\
         child 0\n\
         still abcdefgh\n\
         given back: 0 wrong\n\
         end of forked\n";
    or_skip!(says("forked", FORKING_VARIANTS, expected));
}

#[test]
fn it_may_hold_more_than_there_are_frames() {
    let expected = "seen 4096, wrong 0\n\
         given back: 0 wrong\n\
         end of hoarded\n";
    or_skip!(says("hoarded", &VARIANTS[..1], expected));
}
