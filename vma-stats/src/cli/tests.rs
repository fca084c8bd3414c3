use super::arguments::VERSION;
use super::*;

fn parsed(arguments: &[&str], on_terminal: bool) -> Result<Options, String> {
    let arguments = std::iter::once("vma_stats").chain(arguments.iter().copied());
    Arguments::try_parse_from(modern(arguments.map(OsString::from)))
        .map_err(|error| error.to_string())?
        .resolve(on_terminal)
}

fn options(arguments: &[&str]) -> Result<Options, String> {
    parsed(arguments, false)
}

fn shown(arguments: &[&str], on_terminal: bool) -> String {
    format!("{:?}", parsed(arguments, on_terminal).unwrap().output)
}

#[test]
fn command_line_is_well_formed() {
    Arguments::command().debug_assert();
    let layout = format!("layout {}.{})", stats::LAYOUT_MAJOR, stats::LAYOUT_MINOR);
    assert!(VERSION.ends_with(&layout), "{VERSION}");
}

#[test]
fn defaults_are_the_original_ones() {
    for arguments in [&[][..], &["-f", "-v1", "-d", "1"]] {
        let options = options(arguments).unwrap();
        assert_eq!(options.process, Process::FirstLive);
        assert_eq!(options.directory, PathBuf::from("/tmp/"));
        assert_eq!(options.interval, Duration::from_secs(1));
        assert_eq!((options.cycles, options.details), (0, Details::Totals));
        assert_eq!(options.sockets, FdList::default());
        assert_eq!(options.requests, Requests::default());
        assert!(!options.keep_stale && options.replay.is_none());
        assert!(matches!(options.output, Output::Basic { explained: false }));
    }
}

#[test]
fn short_and_long_options_mean_the_same() {
    let short = ["-p", "7", "-k", "/d", "-i", "0.5", "-c", "3", "-d2", "-F"];
    let long = [
        "--pid=7",
        "--directory",
        "/d",
        "--interval",
        "0.5",
        "--cycles",
        "3",
        "--details",
        "2",
        "--forbid_clean",
    ];
    let options_short = options(&short).unwrap();
    assert_eq!(options_short.process, Process::Pid(7));
    assert_eq!(options_short.interval, Duration::from_millis(500));
    assert_eq!(
        (options_short.cycles, options_short.details),
        (3, Details::Deltas)
    );
    assert!(options_short.keep_stale);
    let options_long = options(&long).unwrap();
    assert_eq!(format!("{options_short:?}"), format!("{options_long:?}"));
    let named = options(&["-n", "redis-server"]).unwrap();
    assert_eq!(named.process, Process::Name("redis-server".to_owned()));
}

#[test]
fn screens_are_for_terminals_that_are_not_asked_for_a_view() {
    assert_eq!(shown(&[], true), "Screens");
    assert_eq!(shown(&["-p", "7", "-i", "0.2"], true), "Screens");
    assert_eq!(shown(&[], false), "Basic { explained: false }");
    assert_eq!(shown(&["-v", "2"], true), "Medium");
    assert_eq!(shown(&["--plain"], true), "Basic { explained: false }");
    assert_eq!(shown(&["-c", "1"], true), "Basic { explained: false }");
    assert_eq!(shown(&["--explain"], true), "Basic { explained: true }");
    assert_eq!(shown(&["-v", "3"], false), "Full");
    assert_eq!(shown(&["-v", "4"], false), "Groups");
    assert_eq!(shown(&["-v", "5"], false), "Netstat");
    assert_eq!(shown(&["--json"], true), "Json");
    assert_eq!(shown(&["explain", "-p", "7", "9"], true), "Words(Some(9))");
    assert_eq!(shown(&["record", "x"], true), "Record(\"x\")");
    assert_eq!(shown(&["replay", "x"], true), "Screens");
    let replay = options(&["replay", "x"]).unwrap().replay;
    assert_eq!(replay, Some(PathBuf::from("x")));
}

#[test]
fn the_last_of_repeated_options_counts() {
    assert_eq!(
        options(&["-c", "1", "-c", "2"]).map(|options| options.cycles),
        Ok(2)
    );
}

#[test]
fn requests_are_those_of_the_original() {
    let requests = |arguments: &[&str]| options(arguments).unwrap().requests;
    assert!(requests(&["-z"]).zero);
    let level = requests(&["-l", "debug"]).log_level;
    assert_eq!(level.as_deref(), Some("debug"));
    assert_eq!(requests(&["-D", "3"]).log_details, Some(3));
    assert_eq!(requests(&["-S", "17"]).dump, Some((17, None)));
    let dump = requests(&["-S", "0", "info"]).dump;
    assert_eq!(dump, Some((0, Some("info".to_owned()))));
    let some = options(&["-s", "4-16,1"]).unwrap().sockets;
    assert!(some.contains(4) && some.contains(1) && !some.contains(2));
}

#[test]
fn metrics_are_served_on_local_addresses_only() {
    let local = shown(&["--prometheus=127.0.0.1:9100"], true);
    assert_eq!(
        local,
        "Prometheus { address: Some(127.0.0.1:9100), is_single: false }"
    );
    assert_eq!(
        shown(&["--prometheus"], true),
        "Prometheus { address: None, is_single: false }"
    );
    for other in ["0.0.0.0:1", "10.0.0.1:9100", "x"] {
        assert!(options(&[&format!("--prometheus={other}")]).is_err());
    }
}

#[test]
fn bad_values_are_errors() {
    for arguments in [
        &["-v", "6"][..],
        &["-v", "0"],
        &["-d", "3"],
        &["-i", "0"],
        &["-i", "-1"],
        &["-i", "nan"],
        &["-i", "inf"],
        &["-c", "x"],
        &["-p", "0"],
        &["-n", ""],
        &["-p", "1", "-n", "x"],
        &["-D", "4"],
        &["-S", "x"],
        &["-s", "x"],
        &["--csv=nothing"],
        &["--json", "--explain"],
        &["--per_socket"],
        &["extra"],
    ] {
        assert!(options(arguments).is_err(), "{arguments:?}");
    }
}

#[test]
fn the_first_command_line_of_the_original_is_understood() {
    let old = options(&["4242"]).unwrap();
    assert_eq!(old.process, Process::Pid(4242));
    let old = options(&["4242", "3"]).unwrap();
    assert_eq!(old.process, Process::Pid(4242));
    assert!(matches!(old.output, Output::Full));
    assert!(options(&["4242", "9"]).is_err());
    assert!(options(&["4242", "x"]).is_err());
    let highest = options(&["-l", "7"]).unwrap().requests;
    assert_eq!(highest.log_level.as_deref(), Some("all"));
}

#[test]
fn options_may_follow_a_command() {
    assert_eq!(shown(&["replay", "x", "-v", "2"], true), "Medium");
    assert_eq!(shown(&["replay", "x", "--json"], true), "Json");
    assert_eq!(shown(&["-v", "2", "replay", "x"], true), "Medium");
    let deltas = options(&["replay", "x", "-d", "2"]).unwrap();
    assert_eq!(deltas.details, Details::Deltas);
}
