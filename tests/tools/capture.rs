//! `vma_stats capture`: what it writes, tshark and tcpdump read.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Accelerated, Namespaces, Pair, Running, SOON, needs, or_skip, preloaded};

const PORT: u16 = 7411;
const SIGINT: i32 = 2;

/// The program of `captured.py`, and a peer without the library.
struct Stage {
    pair: Pair,
    program: Accelerated,
    stdin: ChildStdin,
    directory: PathBuf,
    datagrams: UdpSocket,
    said: usize,
}

impl Stage {
    fn new(name: &str) -> Result<Self, testkit::Skip> {
        needs::require(&["python3", "tshark", "tcpdump"])?;
        let pair = Namespaces::pair()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/captured.py");
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command.arg(script);
        let mut program = Accelerated::start(command).unwrap();
        let stdin = program.process().stdin().unwrap();
        let datagrams = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
            .unwrap();
        datagrams.connect((Pair::ADDRESS_B, PORT)).unwrap();
        datagrams.set_read_timeout(Some(SOON)).unwrap();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capture-{name}"));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        let mut stage = Self {
            pair,
            program,
            stdin,
            directory,
            datagrams,
            said: 0,
        };
        stage.wait_for("ready");
        // The neighbours know each other, and the interface is open.
        (0..3).for_each(|_| stage.ask(b"first"));
        Ok(stage)
    }

    /// Waits until the program has said something more. Returns that line.
    fn wait_for(&mut self, text: &str) -> String {
        let found = testkit::eventually(SOON, || {
            let said = self.program.process().stdout();
            said.get(self.said..)
                .is_some_and(|it| it.contains(text) && it.ends_with('\n'))
        });
        let (said, error) = (
            self.program.process().stdout(),
            self.program.process().stderr(),
        );
        assert!(found, "{said}\n{error}");
        let line = said[self.said..].to_owned();
        self.said = said.len();
        line
    }

    fn tell(&mut self, word: &str) {
        let line = format!("{word}\n");
        self.stdin.write_all(line.as_bytes()).unwrap();
        self.wait_for(word);
    }

    /// A datagram there, and the same back.
    fn ask(&self, data: &[u8]) {
        self.datagrams.send(data).unwrap();
        let mut buffer = [0; 4000];
        let len = self.datagrams.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], data);
    }

    /// A connection, and its descriptor there.
    fn accepted_stream(&mut self) -> (TcpStream, String) {
        let address = (Pair::ADDRESS_B, PORT);
        let stream = self.pair.a.enter(|| TcpStream::connect(address)).unwrap();
        let accepted = self.wait_for("accepted");
        let fd = accepted.trim().rsplit(' ').next().unwrap().to_owned();
        // Who captures sees that it is no listener's packet any more.
        std::thread::sleep(Duration::from_millis(50));
        (stream, fd)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let pid = self.program_pid();
        let mut command = Command::new(testkit::tool("vma-stats", "vma_stats").unwrap());
        command.args(["capture", "-p", &pid, "-k"]);
        command.arg(testkit::statistics_directory());
        command.args(arguments);
        command
    }

    fn program_pid(&self) -> String {
        let reader = self.program.reader();
        reader.process().pid.to_string()
    }

    /// Begins to capture; `-w` is added if there is a file.
    fn capture(&self, file: &str, arguments: &[&str]) -> Running {
        let path = self.file(file);
        let mut command = self.command(&["-w", path.to_str().unwrap()]);
        command.args(arguments);
        let running = Running::start(command).unwrap();
        let begins = testkit::eventually(SOON, || running.stderr().contains("capturing"));
        assert!(begins, "{}", running.stderr());
        running
    }

    /// What `tshark` says of each packet: these fields.
    fn fields(&self, file: &str, names: &[&str]) -> Vec<Vec<String>> {
        let mut command = Command::new("tshark");
        command
            .arg("-r")
            .arg(self.file(file))
            .args(["-T", "fields", "-E", "separator=|"]);
        for name in names {
            command.args(["-e", name]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line: &str| line.split('|').map(str::to_owned).collect();
        text.lines().map(line).collect()
    }

    /// How many packets `tcpdump` finds that a filter takes.
    fn tcpdump(&self, file: &str, filter: &str) -> usize {
        let mut command = Command::new("tcpdump");
        command.args(["-nn", "-r"]).arg(self.file(file)).arg(filter);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout.iter().filter(|it| **it == b'\n').count()
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// Ends it as Ctrl-C does. Returns what it has said.
fn stop(running: Running) -> String {
    let finished = running.stop(SIGINT, SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    finished.stderr
}

#[test]
fn tshark_and_tcpdump_see_both_directions_of_both_protocols() {
    let mut stage = or_skip!(Stage::new("both"));
    let capture = stage.capture("both.pcapng", &[]);
    let begun = std::time::SystemTime::now();
    (0..10_u8).for_each(|number| stage.ask(&[number; 40]));
    let (mut stream, fd) = stage.accepted_stream();
    stream.write_all(&[7; 3000]).unwrap();
    stream.read_exact(&mut [0; 3000]).unwrap();
    // Both become the kernel's, which shows the packets from then on.
    stage.tell("datagrams");
    stage.tell("streams");
    (0..5_u8).for_each(|number| stage.ask(&[number; 41]));
    stream.write_all(&[7; 100]).unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    drop(stream);
    let said = stop(capture);
    assert!(said.contains(" 0 lost"), "{said}");

    let names = [
        "frame.time_epoch",
        "frame.packet_flags_direction",
        "frame.comment",
        "udp.length",
        "tcp.len",
        "frame.interface_name",
        "tcp.flags.syn",
        "tcp.seq",
    ];
    let packets = stage.fields("both.pcapng", &names);
    let pid = stage.program_pid();
    let process = format!("[{pid}] ");
    let program = stage.program.reader().process().program.clone();
    for way in ["received by", "sent by"] {
        let of_way: Vec<_> = packets
            .iter()
            .filter(|packet| packet[2].starts_with(way))
            .collect();
        // Eight octets of header, and forty.
        let datagrams = of_way.iter().filter(|packet| packet[3] == "48");
        assert_eq!(datagrams.count(), 10, "{packets:#?}");
        // What is sent twice counts once: the SYN has the number before the first octet's.
        let ends = of_way
            .iter()
            .filter(|packet| !packet[4].is_empty())
            .map(|packet| number(&packet[7]) + number(&packet[4]));
        assert_eq!(ends.max(), Some(3001), "{way}: {packets:#?}");
        let of_stream = of_way.iter().filter(|packet| !packet[4].is_empty());
        for packet in of_stream.filter(|packet| packet[4] != "0") {
            assert_eq!(
                packet[2],
                format!("{way} {program}{process}fd {fd}"),
                "{packet:?}"
            );
            let direction = packet[1].trim_start_matches("0x").trim_start_matches('0');
            assert_eq!(direction == "1", way == "received by", "{packet:?}");
        }
    }
    assert!(packets.iter().all(|packet| packet[5] == "vb"));
    assert!(
        packets.iter().all(|packet| packet[3] != "49"),
        "the kernel's: {packets:#?}"
    );
    let begun = begun
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    for packet in &packets {
        let (_, fraction) = packet[0].split_once('.').unwrap();
        assert_eq!(fraction.len(), 9, "{packet:?}");
        let time: f64 = packet[0].parse().unwrap();
        assert!((begun - 1.0..begun + 120.0).contains(&time), "{packet:?}");
    }
    // Not all of them are in the same microsecond's beginning.
    assert!(packets.iter().any(|packet| !packet[0].ends_with("000")));
    let count = |filter| stage.tcpdump("both.pcapng", filter);
    assert_eq!(count("udp and greater 82 and less 82"), 20);
    assert_eq!(count("udp or tcp"), packets.len());
}

#[test]
fn filters_lengths_counts_and_rings_of_files_are_kept_to() {
    let mut stage = or_skip!(Stage::new("files"));
    let filter = ["udp", "and", "src", "port", "7411"];
    let limited = ["-c", "4", "--snapshot_length", "60"];
    let capture = stage.capture("few.pcapng", &[&limited[..], &filter].concat());
    let (mut stream, fd) = stage.accepted_stream();
    (0..6).for_each(|_| stage.ask(&[1; 500]));
    let finished = capture.wait(SOON).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    let packets = stage.fields("few.pcapng", &["udp.srcport", "frame.len", "frame.cap_len"]);
    assert_eq!(packets, vec![["7411", "542", "60"]; 4]);

    // Only the stream's, by its descriptor, in two ways.
    let words = format!("fd {fd}");
    let of_filter = stage.capture("filter.pcapng", &[&words]);
    let of_option = stage.capture("option.pcapng", &["-s", &fd]);
    stage.ask(b"other");
    stream.write_all(b"yz").unwrap();
    stream.read_exact(&mut [0; 2]).unwrap();
    stop(of_filter);
    stop(of_option);
    for file in ["filter.pcapng", "option.pcapng"] {
        let packets = stage.fields(file, &["tcp.len", "udp.length"]);
        assert!(packets.iter().any(|packet| packet[0] == "2"), "{packets:?}");
        assert!(
            packets.iter().all(|packet| packet[1].is_empty()),
            "{packets:?}"
        );
    }

    // A millionth of a file is more than one.
    let capture = stage.capture("ring", &["-C", "1", "-W", "3", "udp"]);
    (0..2500).for_each(|_| stage.ask(&[2; 1000]));
    let said = stop(capture);
    assert!(
        said.contains("5000 packets captured") && said.contains(" 0 lost"),
        "{said}"
    );
    let sizes: Vec<_> = (0..3)
        .map(|number| {
            fs::metadata(stage.file(&format!("ring{number}")))
                .unwrap()
                .len()
        })
        .collect();
    assert!(!stage.file("ring3").exists() && !stage.file("ring").exists());
    // Five files and a half: two are full.
    assert!(
        sizes.iter().filter(|size| **size >= 1_000_000).count() == 2,
        "{sizes:?}"
    );
    assert!(sizes.iter().all(|size| *size < 1_010_000), "{sizes:?}");
    let kept: usize = (0..3)
        .map(|number| stage.tcpdump(&format!("ring{number}"), "udp"))
        .sum();
    assert!((1800..5000).contains(&kept), "{kept}");
}

#[test]
fn packets_are_seen_live_in_a_pipe_and_the_memory_goes_back() {
    use std::os::unix::fs::MetadataExt;

    let stage = or_skip!(Stage::new("live"));
    let name = testkit::statistics_directory().join(format!("vmastat.{}", stage.program_pid()));
    let memory = || fs::metadata(&name).unwrap().blocks() * 512;
    let before = memory();
    let mut command = stage.command(&["udp"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut capture = command.spawn().unwrap();
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-nn", "-l", "-r", "-"]);
    tcpdump.stdin(capture.stdout.take().unwrap());
    let seen_file = stage.file("seen");
    tcpdump.stdout(fs::File::create(&seen_file).unwrap());
    tcpdump.stderr(Stdio::null());
    let mut reading = tcpdump.spawn().unwrap();
    // It has the reading end of the pipe, too.
    drop(tcpdump);
    let seen = testkit::eventually(SOON, || {
        stage.ask(&[3; 123]);
        fs::read_to_string(&seen_file)
            .unwrap()
            .contains("length 123")
    });
    assert!(seen, "{}", fs::read_to_string(&seen_file).unwrap());
    let most = memory();
    assert!(most > before + (16 << 20), "{most} after {before}");
    // Who reads has seen enough.
    reading.kill().unwrap();
    reading.wait().unwrap();
    let until = Instant::now() + SOON;
    while capture.try_wait().unwrap().is_none() && Instant::now() < until {
        stage.ask(&[3; 123]);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        capture
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success())
    );
    let is_back = testkit::eventually(SOON, || memory() < before + (1 << 20));
    assert!(is_back, "{} before, {} now", before, memory());
}

#[test]
fn who_may_not_and_what_is_no_filter_is_told_so() {
    let stage = or_skip!(Stage::new("refused"));
    let file = stage.file("refused.pcapng");
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        assert!(!file.exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let write = ["-w", file.to_str().unwrap()];
    let error = refused(&mut stage.command(&[&write[..], &["port", "http"]].concat()));
    assert!(error.contains("'http' is no port"), "{error}");
    let mut command = stage.command(&write);
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    let error = refused(&mut command);
    assert!(error.contains("ermission denied"), "{error}");
    let mut unused = stage.command(&write);
    unused.args(["-p", "1"]);
    refused(&mut unused);
}
