//! What accelerated packets pass by is said once.

use testkit::{Accelerated, Namespaces, Pair, SOON, Skip, or_skip, preloaded};

/// What the library says of it to a program with two sockets.
fn words(prepare: impl FnOnce(&Pair)) -> Result<Vec<String>, Skip> {
    let pair = Namespaces::pair()?;
    prepare(&pair);
    let program = testkit::c_program("two_echoes");
    let mut command = preloaded(&pair.b, &program).unwrap();
    let address = Pair::ADDRESS_B.to_string();
    command.args([address.as_str(), "7700", "7701"]);
    let mut echo = Accelerated::start(command).unwrap();
    assert!(
        echo.process().wait_for_output("ready", SOON),
        "{}",
        echo.process().stderr()
    );
    let notes = echo.reader().notes().unwrap();
    let noted = notes.iter().any(|note| note.text.contains("pass by"));
    let log = echo.process().stderr();
    assert_eq!(noted, log.contains("pass by"), "{notes:?}");
    let lines = log.lines().filter(|line| line.contains("pass by"));
    Ok(lines.map(str::to_owned).collect())
}

#[test]
fn nothing_is_said_where_there_is_nothing() {
    assert_eq!(or_skip!(words(|_| {})), [""; 0]);
}

#[test]
fn traffic_control_is_named_once() {
    let said = or_skip!(words(|pair| {
        let mut tc = pair.b.command("tc");
        let status = tc.args("qdisc add dev vb clsact".split(' ')).status();
        assert!(status.unwrap().success());
    }));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("WARNING") && said[0].contains("vb: "),
        "{said:?}"
    );
    assert!(said[0].ends_with("traffic control (clsact)"), "{said:?}");
}
