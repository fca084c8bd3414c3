//! From the command line to [`Options`].

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::affinity;
use crate::bins::BinOptions;
use crate::error::Error;
use crate::message::{HEADER_LEN, MAX_UDP_LEN};
use crate::options::{
    Activity, ClientOptions, CommonOptions, JsonTarget, Mode, Options, PingPongOptions,
    ServerOptions, TestLength, ThroughputOptions,
};
use crate::table::{OPTIONS, OptionSpec};

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "there is one per process")]
pub enum Invocation {
    /// Print this text and end.
    Print(String),
    /// Run a test or a server.
    Run(Options),
}

/// Reads the arguments that follow the program name. `seed` is the value of the variable `SEED`.
pub fn parse<I>(arguments: I, seed: Option<&str>) -> Result<Invocation, Error>
where
    I: IntoIterator<Item = String>,
{
    let mut arguments = arguments.into_iter();
    let Some(word) = arguments.next() else {
        return Ok(Invocation::Print(general_help()));
    };
    match word.as_str() {
        "help" | "h" | "?" | "--help" | "-h" => return Ok(Invocation::Print(general_help())),
        "--version" => return Ok(Invocation::Print(version())),
        "under-load" | "ul" | "playback" | "pb" => {
            return Err(Error::Usage(format!("not supported yet: {word}")));
        }
        _ => {}
    }
    let Some(mode) = Mode::from_word(&word) else {
        return Err(Error::Usage(format!(
            "unknown command '{word}'; see sockperf-rs help"
        )));
    };
    let mut command = command(mode);
    let matches = command
        .try_get_matches_from_mut([word].into_iter().chain(arguments))
        .map_err(|error| Error::Usage(usage_message(&error, mode)))?;
    if matches.get_flag(HELP) {
        let text = command.render_help().to_string();
        return Ok(Invocation::Print(text));
    }
    let given = Given { matches: &matches };
    given.refuse_others(mode)?;
    let options = match mode {
        Mode::Server => Options::Server(server(&given)?),
        Mode::PingPong => Options::PingPong(ping_pong(&given, seed)?),
        Mode::Throughput => Options::Throughput(ThroughputOptions {
            client: client(&given, seed)?,
            time_sec: given.time_sec()?,
        }),
    };
    Ok(Invocation::Run(options))
}

const HELP: &str = "help";
const SECONDS_MAX: u32 = 36_000_000;
const PACKETS_MAX: u32 = 100_000_000;
const RATE_MAX: u32 = 1 << 30;
/// A burst keeps two stamps per message: 16 MiB.
const BURST_MAX: u32 = 1 << 20;

/// The commands with their options, for the manual page.
pub fn commands() -> Vec<Command> {
    [Mode::PingPong, Mode::Throughput, Mode::Server]
        .map(command)
        .into()
}

fn command(mode: Mode) -> Command {
    let help = Arg::new(HELP)
        .long(HELP)
        .visible_alias("usage")
        .short('h')
        .visible_short_alias('?')
        .action(ArgAction::SetTrue)
        .help("Show this text and exit");
    Command::new(mode.name())
        .bin_name(format!("sockperf-rs {}", mode.name()))
        .about(format!(
            "{} ({}): {}",
            mode.name(),
            mode.alias(),
            mode.about()
        ))
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help)
        .args(OPTIONS.iter().map(|option| argument(option, mode)))
}

fn argument(option: &OptionSpec, mode: Mode) -> Arg {
    let (aliases, short) = (option.long.iter().skip(1), option.short);
    let argument = Arg::new(option.key())
        .long(option.key())
        .visible_aliases(aliases)
        .short(short);
    if !option.modes.contains(&mode) {
        // Taken with any or no value, to be refused by name.
        return argument
            .hide(true)
            .num_args(0..=1)
            .action(ArgAction::Append);
    }
    match option.value {
        Some(value) => argument.value_name(value).action(ArgAction::Set),
        None => argument.action(ArgAction::SetTrue),
    }
    .help(option.help)
}

fn general_help() -> String {
    let mut text = String::from(
        "Usage: sockperf-rs <command> [options] [args]\n\
         Try: sockperf-rs <command> --help for help on a specific command.\n\
         \n\
         Available commands:\n",
    );
    for mode in [Mode::PingPong, Mode::Throughput, Mode::Server] {
        let name = format!("{} ({})", mode.name(), mode.alias());
        text.push_str(&format!("   {name:<20}\t{}\n", mode.about()));
    }
    text.push_str(&format!(
        "   {:<20}\tDisplay list of supported commands.\n",
        "help (h ,?)"
    ));
    text.push_str(&format!(
        "   {:<20}\tTool version information.\n",
        "--version"
    ));
    text
}

fn version() -> String {
    format!("sockperf-rs, version {}\n", env!("CARGO_PKG_VERSION"))
}

/// The parser's own message without its prefix and without its help hint, in one line per
/// paragraph.
fn usage_message(error: &clap::Error, mode: Mode) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or(text).trim_end();
    format!("{first}; see sockperf-rs {} --help", mode.name())
}

fn server(given: &Given<'_>) -> Result<ServerOptions, Error> {
    given.message_len()?;
    Ok(ServerOptions {
        common: common(given, given.cpu_list("cpu-affinity")?)?,
        reply: !given.switch("dont-reply"),
        gap_detection: given.switch("gap-detection"),
    })
}

fn ping_pong(given: &Given<'_>, seed: Option<&str>) -> Result<PingPongOptions, Error> {
    let length = match given.text("number-of-packets") {
        None => TestLength::TimeSec(given.time_sec()?),
        Some(_) if given.text("time").is_some() || given.text("mps").is_some() => {
            return Err(usage("-n conflicts with -t,--mps options"));
        }
        Some(text) => TestLength::Packets(
            integer_in(text, 1, PACKETS_MAX)
                .ok_or_else(|| usage(format!("'-n' Invalid number of packets: {text}")))?,
        ),
    };
    let data_integrity = given.switch("data-integrity");
    if data_integrity && given.text("burst").is_some() {
        return Err(usage("--data-integrity conflicts with -b option"));
    }
    let confidence_level = match given.text("ci_sig_level") {
        None => 99,
        Some(text) => integer_in(text, 1, 99).ok_or_else(|| {
            usage(format!(
                "'--ci_sig_level' Invalid Significance level: {text}"
            ))
        })?,
    };
    Ok(PingPongOptions {
        client: client(given, seed)?,
        length,
        timeout: given.timeout()?,
        full_rtt: given.switch("full-rtt"),
        data_integrity,
        confidence_level,
        histogram: given
            .text("histogram")
            .map(BinOptions::parse)
            .transpose()
            .map_err(usage)?,
        full_log: given.text("full-log").map(str::to_owned),
    })
}

fn client(given: &Given<'_>, seed: Option<&str>) -> Result<ClientOptions, Error> {
    let sender = given.cpu_list("sender-affinity")?;
    let receiver = given.cpu_list("receiver-affinity")?;
    if let (Some(sender), Some(receiver)) = (&sender, &receiver)
        && sender != receiver
    {
        return Err(usage(
            "--sender-affinity and --receiver-affinity differ, but ping-pong sends and receives in \
             one thread; give one of them",
        ));
    }
    let common = common(given, sender.or(receiver))?;
    if common.port == 0 {
        return Err(usage("'-p' Invalid port: 0 cannot be sent to"));
    }
    let burst = match given.text("burst") {
        None => 1,
        Some(text) => integer_in(text, 1, BURST_MAX)
            .ok_or_else(|| usage(format!("'-b' Invalid burst size: {text}")))?,
    };
    let messages_per_second = match given.text("mps") {
        None | Some("max" | "MAX") => None,
        Some(text) => Some(integer_in(text, 1, RATE_MAX).ok_or_else(|| {
            usage(format!(
                "'--mps' Invalid rate: {text} (max, or 1 to {RATE_MAX})"
            ))
        })?),
    };
    let range_len = match given.text("range") {
        None => 0,
        Some(text) => integer_in(text, 0, MAX_UDP_LEN)
            .ok_or_else(|| usage(format!("'-r' Invalid value: {text}")))?,
    };
    let seed = match seed {
        None => 1,
        Some(text) => integer_in(text, 0, u64::MAX).ok_or_else(|| {
            usage(format!(
                "environment variable SEED: invalid number '{text}'"
            ))
        })?,
    };
    Ok(ClientOptions {
        common,
        bind_host: given.text("client_ip").map(str::to_owned),
        bind_port: given.port("client_port")?.unwrap_or(0),
        message_len: given.message_len()?,
        range_len,
        burst,
        messages_per_second,
        seed,
    })
}

fn common(given: &Given<'_>, cpus: Option<Vec<usize>>) -> Result<CommonOptions, Error> {
    let buffer_len = match given.text("buffer-size") {
        None => None,
        Some(text) => Some(
            integer_in(text, 1, i32::MAX.unsigned_abs())
                .and_then(|len| usize::try_from(len).ok())
                .ok_or_else(|| {
                    usage(format!(
                        "'--buffer-size' Invalid socket buffer size: {text}"
                    ))
                })?,
        ),
    };
    let tos = match given.text("tos") {
        None => None,
        Some(text) => Some(
            integer_in(text, 0, u8::MAX)
                .ok_or_else(|| usage(format!("'--tos' Invalid value: {text} (0 to 255)")))?,
        ),
    };
    let wait_sec = match given.text("pre-warmup-wait") {
        None => 0,
        Some(text) => integer_in(text, 1, SECONDS_MAX).ok_or_else(|| {
            usage(format!(
                "'--pre-warmup-wait' Invalid pre warmup wait: {text}"
            ))
        })?,
    };
    Ok(CommonOptions {
        host: given.text("ip").map(str::to_owned),
        port: given.port("port")?.unwrap_or(11_111),
        tos,
        buffer_len,
        nonblocked: given.switch("nonblocked"),
        activity: given.activity()?,
        warm_up: !given.switch("dontwarmup"),
        pre_warm_up_wait: Duration::from_secs(u64::from(wait_sec)),
        no_rdtsc: given.switch("no-rdtsc"),
        cpus,
        json: given.text("json").map(|target| match target {
            "-" => JsonTarget::Stdout,
            path => JsonTarget::File(path.to_owned()),
        }),
    })
}

/// The options that were given. A key that the mode lacks counts as not given.
struct Given<'a> {
    matches: &'a ArgMatches,
}

impl Given<'_> {
    /// Refuses the options that this mode or this program does not have.
    fn refuse_others(&self, mode: Mode) -> Result<(), Error> {
        for option in OPTIONS
            .iter()
            .filter(|option| !option.modes.contains(&mode))
        {
            if self.matches.contains_id(option.key()) {
                let name = option.display();
                return Err(Error::Usage(if option.modes.is_empty() {
                    format!("not supported yet: {name}")
                } else {
                    format!("{name} has no meaning in {} mode", mode.name())
                }));
            }
        }
        Ok(())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.matches
            .try_get_one::<String>(key)
            .ok()
            .flatten()
            .map(String::as_str)
    }

    fn switch(&self, key: &str) -> bool {
        self.matches
            .try_get_one::<bool>(key)
            .ok()
            .flatten()
            .copied()
            .unwrap_or(false)
    }

    fn port(&self, key: &str) -> Result<Option<u16>, Error> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let name = if key == "port" { "-p" } else { "--client_port" };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(port) if digits => Ok(Some(port)),
            _ => Err(usage(format!("'{name}' Invalid port: {text} (0 to 65535)"))),
        }
    }

    fn time_sec(&self) -> Result<u32, Error> {
        let Some(text) = self.text("time") else {
            return Ok(1);
        };
        integer_in(text, 1, SECONDS_MAX)
            .ok_or_else(|| usage(format!("'-t' Invalid duration: {text}")))
    }

    fn message_len(&self) -> Result<usize, Error> {
        let Some(text) = self.text("msg-size") else {
            return Ok(HEADER_LEN);
        };
        integer_in(text, HEADER_LEN, MAX_UDP_LEN).ok_or_else(|| {
            let too_short = integer(text).is_none_or(|number| number < HEADER_LEN as i128);
            let limit = if too_short {
                format!("min: {HEADER_LEN}")
            } else {
                format!("max: {MAX_UDP_LEN}")
            };
            usage(format!("'-m' Invalid message size: {text} ({limit})"))
        })
    }

    fn timeout(&self) -> Result<Option<Duration>, Error> {
        match self.text("timeout") {
            None => Ok(Some(Duration::from_millis(100))),
            Some("-1") => Ok(None),
            Some(text) => integer_in(text, 1u32, SECONDS_MAX)
                .map(|msec| Some(Duration::from_millis(u64::from(msec))))
                .ok_or_else(|| {
                    usage(format!(
                        "'--timeout' Invalid reply timeout: {text} (msec, or =-1 for no limit)"
                    ))
                }),
        }
    }

    fn activity(&self) -> Result<Activity, Error> {
        let count = |key, name| {
            self.text(key)
                .map(|text| {
                    integer_in(text, 1, u64::MAX).ok_or_else(|| {
                        usage(format!("'{name}' Invalid number of messages: {text}"))
                    })
                })
                .transpose()
        };
        match (count("activity", "-a")?, count("Activity", "-A")?) {
            (None, None) => Ok(Activity::Off),
            (Some(every), None) => Ok(Activity::Dots(every)),
            (None, Some(every)) => Ok(Activity::Rates(every)),
            (Some(_), Some(_)) => Err(usage("-a conflicts with -A")),
        }
    }

    fn cpu_list(&self, key: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        affinity::parse_cpu_list(text)
            .map(Some)
            .ok_or_else(|| usage(format!("'--{key}' Invalid CPU list: {text} (like 0,2-4)")))
    }
}

fn usage(message: impl Into<String>) -> Error {
    Error::Usage(message.into())
}

/// A number in one of the C notations: decimal, `0x` hexadecimal, `0` octal.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(hexadecimal) => (hexadecimal, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (lower.as_str(), 8),
        None => (lower.as_str(), 10),
    };
    // from_str_radix would take a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

fn integer_in<T>(text: &str, min: T, max: T) -> Option<T>
where
    T: TryFrom<i128> + PartialOrd,
{
    integer(text)
        .and_then(|number| T::try_from(number).ok())
        .filter(|n| (min..=max).contains(n))
}

#[cfg(test)]
mod tests;
