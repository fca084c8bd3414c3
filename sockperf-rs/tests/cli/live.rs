//! The live view, on a pseudo-terminal that script(1) makes.

use std::process::Command;

use crate::harness::{Server, has, output, stdout};

/// Our program's output on a terminal of 100 columns; `None` where there is no script(1).
fn on_terminal(arguments: &str) -> Option<String> {
    if !has("script") {
        return None;
    }
    let program = env!("CARGO_BIN_EXE_sockperf-rs");
    let line = format!("stty cols 100 rows 30; {program} {arguments}");
    let mut command = Command::new("/usr/bin/script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR");
    Some(stdout(&output(command)))
}

#[test]
fn a_terminal_gets_a_line_and_colours() {
    let server = Server::ours("");
    let arguments = format!("pp -i 127.0.0.1 -p {} -t 3 --mps 1000", server.port);
    let Some(text) = on_terminal(&arguments) else {
        return;
    };
    let ticks = text.matches("\x1b[K").count();
    assert!((2..=5).contains(&ticks), "{text:?}");
    assert!(text.contains("\rsockperf: [   0.00 -"), "{text:?}");
    assert!(text.contains("\x1b[2;35m====> avg-latency="), "{text:?}");
}

#[test]
fn live_view_is_drawn_and_leaves_the_terminal_as_it_was() {
    let server = Server::ours("");
    let arguments = format!(
        "ul -i 127.0.0.1 -p {} -t 3 --mps 1000 --reply-every 1 --live --interval 0.2",
        server.port
    );
    let Some(text) = on_terminal(&arguments) else {
        return;
    };
    let (before, rest) = text.split_once("\x1b[?1049h").expect("the other screen");
    let (view, after) = rest
        .split_once("\x1b[?1049l")
        .expect("the first screen again");
    assert!(before.contains("Starting test..."), "{before}");
    // Between words the cursor moves.
    for part in ["under-load", "messages", "microseconds", "msg/s", "dropped"] {
        assert!(view.contains(part), "{part}: {view:?}");
    }
    assert!(
        after.contains("\x1b[?25h") || view.contains("\x1b[?25h"),
        "the cursor"
    );
    assert!(after.contains("<MIN> observation"), "{after}");
}
