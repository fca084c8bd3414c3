//! `udp_lat`: the latency tool that came with VMA in 2008, on the same code.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::client::ping_pong;
use crate::client::run::{Recording, Test};
use crate::error::Error;
use crate::measure::intervals::Progress;
use crate::net::address::Flow;
use crate::net::feed;
use crate::net::open::{self, Endpoint};
use crate::options::args::{self, Invocation};
use crate::options::{ClientOptions, Options, ServerOptions, TestLength};
use crate::server::{self, Filters, Serving};
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::terminal::{Output, Style};

const HELP: &str = "\
Usage: udp_lat -s|-c [-i address] [-p port] [-t seconds] [-m bytes]

  -s, --server   answer messages
  -c, --client   send messages, one at a time, and print the mean latency
  -i address     address or group to listen on or send to [server: 0.0.0.0, client: 127.0.0.1]
  -p port        port [11111]
  -t seconds     duration of the test [1]
  -m bytes       size of a message, 14..65507 [14]
  -h, --help     show this text
  -V, --version  show the version
";

/// Runs the program with the arguments that follow its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = arguments
        .into_iter()
        .map(|argument| argument.to_string_lossy().into_owned());
    let result = command_line(arguments).and_then(|command| match command {
        Command::Help => say(HELP),
        Command::Version => say(concat!("udp_lat ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Run(Options::Server(options)) => serve(&options),
        Command::Run(Options::Client(options)) => measure(&options),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere to report that the standard error is closed.
            writeln!(io::stderr(), "udp_lat: {error}").ok();
            ExitCode::from(error.exit_code())
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one per process")]
enum Command {
    Help,
    Version,
    Run(Options),
}

/// The command line in the words of sockperf.
fn command_line(arguments: impl Iterator<Item = String>) -> Result<Command, Error> {
    let usage = |text: String| Error::Usage(format!("{text}; see udp_lat --help"));
    let mut mode = None;
    let mut rest = Vec::new();
    let mut arguments = arguments.peekable();
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "-V" | "--version" => return Ok(Command::Version),
            "-s" | "--server" | "-c" | "--client" => {
                let word = if word.trim_start_matches('-').starts_with('s') {
                    "sr"
                } else {
                    "pp"
                };
                if mode.replace(word).is_some_and(|earlier| earlier != word) {
                    return Err(usage("-s conflicts with -c".to_owned()));
                }
            }
            "-i" | "-p" | "-t" | "-m" => {
                let value = arguments
                    .next()
                    .ok_or_else(|| usage(format!("{word} needs a value")))?;
                rest.push(format!("{word}={value}"));
            }
            _ => return Err(usage(format!("unknown option {word}"))),
        }
    }
    let mode = mode.ok_or_else(|| usage("one of -s and -c is needed".to_owned()))?;
    if mode == "sr" {
        // Servers end when they are told to.
        rest.retain(|word| !word.starts_with("-t"));
    }
    let words = [mode, "--dontwarmup"].map(str::to_owned).into_iter();
    match args::parse(words.chain(rest), None)? {
        Invocation::Run(options) => Ok(Command::Run(options)),
        Invocation::Print(_) | Invocation::Compare { .. } => Ok(Command::Help),
    }
}

fn serve(options: &ServerOptions) -> Result<(), Error> {
    let flows = feed::flows_of(&options.common.target, "0.0.0.0")?;
    let sockets = open::server(&flows, options)?;
    say(&format!("udp_lat: [SERVER] listen on: {}", place(&flows)))?;
    let (stop, output) = (signals()?, silence());
    let serving = Serving {
        options,
        clock: &Clock::monotonic(),
        stop: &stop,
        filters: Filters::new(options, &stop, &output)?,
        output,
        tls: None,
    };
    server::serve(sockets, &serving).map(|_| ())
}

fn measure(options: &ClientOptions) -> Result<(), Error> {
    let flows = feed::flows_of(&options.common.target, "127.0.0.1")?;
    say(&format!("udp_lat: [CLIENT] send on: {}", place(&flows)))?;
    let endpoints: Vec<Endpoint> = flows
        .into_iter()
        .map(|flow| open::client(flow, options, false))
        .collect::<Result<_, Error>>()?;
    say("udp_lat: Client Start sending ...\n")?;
    let test = &mut Test {
        options,
        endpoints: &endpoints,
        clock: &Clock::fastest(),
        stop: &signals()?,
        progress: &Progress::default(),
        output: silence(),
    };
    let run = ping_pong::run(test, Recording::default())?;
    if run.replies.received == 0 {
        return Err(Error::NoResult(
            "No messages were received from the server. Is the server down?".to_owned(),
        ));
    }
    let seconds = run.sending.run_time_nsec as f64 / 1e9;
    let TestLength::TimeSec(planned) = options.length else {
        return Ok(());
    };
    say(&result_line(run.replies.received, planned, seconds))
}

/// Half of the time that each round trip took.
fn result_line(count: u64, planned_sec: u32, seconds: f64) -> String {
    format!(
        "client_sig_handler:client_counter={count} in {planned_sec} sec, latency={:.3} [usec]\n",
        seconds * 1e6 / count.max(1) as f64 / 2.0
    )
}

fn place(flows: &[Flow]) -> String {
    flows
        .iter()
        .filter_map(|flow| flow.address.inet())
        .map(|address| format!("{} port {}\n", address.ip(), address.port()))
        .collect()
}

fn signals() -> Result<Stop, Error> {
    Stop::on_signals().map_err(|error| Error::setup("cannot handle signals", error))
}

fn silence() -> Output {
    Output::new(Box::new(io::sink()), Style::PLAIN)
}

fn say(text: &str) -> Result<(), Error> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Error::setup("cannot write to the standard output", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    fn command(line: &str) -> Result<Command, Error> {
        command_line(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn command_lines_of_the_manual() {
        for (line, mode) in [
            ("-s -i 224.1.1.1", Mode::Server),
            ("-c -i 224.1.1.1 -p 5 -t 2 -m 100", Mode::PingPong),
            ("--server -t 5", Mode::Server),
        ] {
            let Ok(Command::Run(options)) = command(line) else {
                panic!("{line}");
            };
            assert_eq!(options.mode(), mode, "{line}");
        }
        assert_eq!(command("--help").ok(), Some(Command::Help));
        assert_eq!(command("-V").ok(), Some(Command::Version));
        assert_eq!(command("--version").ok(), Some(Command::Version));
        for line in ["", "-s -c", "-c -i", "-c -x", "-c -t 0"] {
            assert!(command(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_manual_page_has_every_option() {
        let page = include_str!("../../man/udp_lat.1").replace('\\', "");
        for word in HELP.split([' ', ',', '|', '\n']) {
            if word.starts_with('-') {
                assert!(page.contains(&format!("fB{word}fR")), "{word}");
            }
        }
    }

    #[test]
    fn result_is_that_of_the_manual() {
        // 1 s / 67060 / 2
        assert_eq!(
            result_line(67_060, 1, 1.0),
            "client_sig_handler:client_counter=67060 in 1 sec, latency=7.456 [usec]\n"
        );
    }
}
