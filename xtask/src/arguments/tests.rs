use super::*;

fn parse_words(words: &str) -> Result<Task, String> {
    let words = ["xtask"].into_iter().chain(words.split_whitespace());
    parse(words.map(OsString::from)).map_err(|failure| failure.to_string())
}

#[test]
fn every_command_of_the_usage_is_understood() {
    let commands: Vec<&str> = USAGE
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect();
    assert_eq!(
        commands,
        [
            "setup",
            "demo",
            "test",
            "fuzz",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "bench",
            "compare",
            "instructions",
            "package",
            "machine",
            "docs"
        ]
    );
    for command in commands {
        parse_words(command).unwrap();
    }
    assert_eq!(parse_words("--help"), Ok(Task::Help));
    assert_eq!(parse_words("help"), Ok(Task::Help));
}

#[test]
fn options_belong_to_their_command() {
    let test = |extent, loudness| Ok(Task::Test { extent, loudness });
    for (words, extent, loudness) in [
        ("test --quick", Extent::Quick, Loudness::Line),
        ("test", Extent::Usual, Loudness::Line),
        ("test --long -v", Extent::Long, Loudness::Verbose),
        ("test --verbose", Extent::Usual, Loudness::Verbose),
    ] {
        assert_eq!(parse_words(words), test(extent, loudness), "{words}");
    }
    assert_eq!(
        parse_words("bench --rounds=7 --json out.json --check"),
        Ok(Task::Bench(BenchOptions {
            rounds: 7,
            json: Some("out.json".into()),
            check: true,
            ..BenchOptions::default()
        }))
    );
    assert_eq!(
        parse_words("bench --service nsd --service=chrony"),
        Ok(Task::Bench(BenchOptions {
            subject: Subject::Services,
            service: vec!["nsd".to_owned(), "chrony".to_owned()],
            ..BenchOptions::default()
        }))
    );
    for words in [
        "bench --everyday --service nsd-udp --rounds 1",
        "bench --service nsd-udp --rounds 1 --everyday",
    ] {
        assert_eq!(
            parse_words(words),
            Ok(Task::Bench(BenchOptions {
                subject: Subject::Everyday,
                service: vec!["nsd-udp".to_owned()],
                rounds: 1,
                ..BenchOptions::default()
            }))
        );
    }
    assert_eq!(
        parse_words("bench --streams --rounds 7"),
        Ok(Task::Bench(BenchOptions {
            subject: Subject::Streams,
            rounds: 7,
            ..BenchOptions::default()
        }))
    );
    assert_eq!(
        parse_words("bench --short"),
        Ok(Task::Bench(BenchOptions {
            subject: Subject::Short,
            ..BenchOptions::default()
        }))
    );
    assert_eq!(
        parse_words("bench --rings"),
        Ok(Task::Bench(BenchOptions {
            subject: Subject::Rings,
            ..BenchOptions::default()
        }))
    );
    for (words, subject) in [
        ("bench --calls", Subject::Calls),
        ("bench --throughput", Subject::Throughput),
    ] {
        let options = BenchOptions {
            subject,
            ..BenchOptions::default()
        };
        assert_eq!(parse_words(words), Ok(Task::Bench(options)));
    }
    assert_eq!(parse_words("fuzz"), Ok(Task::Fuzz { seconds: None }));
    assert_eq!(
        parse_words("fuzz --seconds 5"),
        Ok(Task::Fuzz { seconds: Some(5) })
    );
    assert_eq!(
        parse_words("compare --rounds 9"),
        Ok(Task::Compare { rounds: 9 })
    );
    assert_eq!(
        parse_words("instructions --update"),
        Ok(Task::Instructions { update: true })
    );
    assert_eq!(
        parse_words("package --try"),
        Ok(Task::Package {
            libc: Libc::Own,
            tries: true
        })
    );
    assert_eq!(
        parse_words("package --old-glibc"),
        Ok(Task::Package {
            libc: Libc::Old,
            tries: false
        })
    );
    assert_eq!(parse_words("setup"), Ok(Task::Setup { tries: false }));
    assert_eq!(parse_words("setup --try"), Ok(Task::Setup { tries: true }));
    assert!(parse_words("demo --quick").unwrap_err().contains("--quick"));
    assert!(parse_words("test --check").unwrap_err().contains("--check"));
    assert!(parse_words("setup now").unwrap_err().contains("now"));
}

#[test]
fn errors_name_what_is_wrong_and_show_the_usage() {
    for (words, named) in [
        ("", "a command is needed"),
        ("tset", "tset"),
        ("--tset", "--tset"),
        ("fuzz --seconds 0", "1 to 86400"),
        ("fuzz --seconds 86401", "1 to 86400"),
        ("bench --rounds", "--rounds"),
        ("bench --rounds many", "many"),
        ("bench --rounds 4", "5 to 1000"),
        ("bench --rounds 1001", "5 to 1000"),
        ("compare --rounds 4", "5 to 1000"),
        ("bench --everyday --rounds 0", "1 to 1000"),
        ("bench --quick", "--everyday"),
    ] {
        let error = parse_words(words).unwrap_err();
        assert!(error.contains(named), "{words}: {error}");
        assert!(error.contains(USAGE), "{words}: {error}");
    }
}
