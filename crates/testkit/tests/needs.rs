//! The list of needs has every program that a script or a test of this workspace runs, so that
//! `cargo xtask setup` on a fresh machine leaves no test without what it asks for.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::{files_below, needs};

/// Programs of packages that every Debian system has (`Essential` or of priority `required`), and
/// the shell's own words.
const EVERYWHERE: &str = "\
    awk base64 basename bash cat chmod chown chroot cksum cmp comm cp cut date dd df diff dirname du echo env expr factor \
    false find flock getent grep gunzip gzip head hostname id install join kill ldd ln login ls md5sum mkdir mkfifo \
    mktemp mount mv newgrp nice nl nohup nproc nsenter od passwd paste prlimit printenv printf pwd readlink realpath rm \
    rmdir sed seq sh sha256sum shuf sleep sort split stat stdbuf stty su sync tail tar tee test timeout touch tr true \
    truncate tty umount uname uniq wc xargs yes zcat";
const OF_THE_SHELL: &str = "\
    . : [ [[ alias break case cd command continue coproc declare do done elif else esac eval exec exit export fi for function \
    hash if in jobs kill let local mapfile read readarray return set shift shopt source then time trap type typeset \
    ulimit umask unset until wait while { } ! ((";
/// What runs the program that follows, after words of its own.
const STARTERS: &str = "\
    ! client command do elif else env eval exec if measure nice peer peer_server sudo serve then time timeout until \
    until_peer_answers until_true while {";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_of(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let workspace = workspace();
    let is_wanted = |path: &PathBuf| {
        let place = path.strip_prefix(&workspace).unwrap();
        let mut parents = place.parent().into_iter().flatten();
        let is_apart = parents.any(|name| name == "fuzz" || name == "models");
        let extension = path.extension().and_then(|extension| extension.to_str());
        !is_apart && extension.is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files = files_below(&workspace);
    files.retain(is_wanted);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path, text)
    };
    files.into_iter().map(read).collect()
}

/// A script without its remarks, its arithmetic, what it quotes and its here documents.
fn code_of(script: &str) -> String {
    let mut code = String::new();
    let mut document_ends_with: Option<String> = None;
    let mut quote = None;
    for line in script.lines() {
        if let Some(end) = &document_ends_with {
            if line == end {
                document_ends_with = None;
            }
            continue;
        }
        let mut before = ' ';
        for symbol in line.chars() {
            match quote {
                Some(end) if symbol == end => quote = None,
                Some(_) => {}
                None if symbol == '#' && before == ' ' => break,
                None if symbol == '\'' || symbol == '"' => {
                    quote = Some(symbol);
                    code.push('_');
                }
                None => code.push(symbol),
            }
            before = symbol;
        }
        if quote.is_none() {
            code.push('\n');
        }
        let document = line
            .split_once("<<")
            .filter(|(_, end)| !end.starts_with('<'));
        if let Some((_, end)) = document {
            let end = end.trim_start_matches(['-', '\'', '"']);
            let end: String = end
                .chars()
                .take_while(char::is_ascii_alphanumeric)
                .collect();
            document_ends_with = (!end.is_empty()).then_some(end);
        }
    }
    // What `case` compares with.
    let without_label = |line: &str| match line.split_once(')') {
        Some((label, rest)) if !label.contains('(') => rest.to_owned(),
        _ => line.to_owned(),
    };
    code = code
        .lines()
        .map(without_label)
        .collect::<Vec<_>>()
        .join("\n");
    while let Some(begin) = code.find("((") {
        let end = code[begin..]
            .find("))")
            .map_or(code.len(), |end| begin + end + 2);
        code.replace_range(begin..end, "_");
    }
    code
}

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|other| other == word)
}

fn functions_of(code: &str) -> BTreeSet<String> {
    let heads = code.match_indices("()").map(|(at, _)| &code[..at]);
    let name = |head: &str| {
        let from = head.rfind(|symbol: char| !symbol.is_ascii_alphanumeric() && symbol != '_');
        head[from.map_or(0, |from| from + 1)..].to_owned()
    };
    heads.map(name).collect()
}

/// The first words of its commands that may be programs.
fn programs_of(code: &str) -> BTreeSet<String> {
    // What a substitution runs is a command, too; the sign of a variable stays.
    let code = code
        .replace("$(", "\n(")
        .replace("\\\n", " ")
        .replace(";;", "\n");
    let mut programs = BTreeSet::new();
    for command in code.split(['\n', ';', '|', '&', '(', ')', '`']) {
        let mut words = command
            .split_whitespace()
            .map(|word| word.trim_matches('"'));
        let mut starter = None;
        while let Some(word) = words.next() {
            let is_assignment = word.split_once('=').is_some_and(|(name, _)| {
                name.chars()
                    .all(|symbol| symbol.is_ascii_alphanumeric() || "_+[]".contains(symbol))
            });
            if is_assignment || word.starts_with(['<', '>']) {
                continue;
            }
            // Options of `env -u NAME`, `nice -n 5`, `timeout -k 5`.
            if starter.is_some() && word.starts_with('-') {
                let has_value =
                    word == "-u" || (word == "-n" && starter == Some("nice")) || word == "-k";
                if has_value {
                    words.next();
                }
                continue;
            }
            if starter == Some("timeout") && word.starts_with(|first: char| first.is_ascii_digit())
            {
                continue;
            }
            if has(STARTERS, word) {
                starter = Some(word);
                continue;
            }
            programs.insert(word.to_owned());
            break;
        }
    }
    programs.retain(|word| {
        let is_a_name = word.starts_with(|first: char| first.is_ascii_lowercase() || first == '/');
        let is_plain = |symbol: char| symbol.is_ascii_alphanumeric() || "/._+-".contains(symbol);
        is_a_name && word.chars().all(is_plain)
    });
    programs
}

fn is_listed(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    has(EVERYWHERE, name) || needs::find(name).is_some()
}

#[test]
fn every_program_that_a_script_runs_is_listed() {
    let scripts = files_of(&["sh", "bash"]);
    let scripts: Vec<_> = scripts
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("/tests/programs/"))
        .collect();
    assert!(scripts.len() > 70, "the scripts are somewhere else");
    let codes: Vec<_> = scripts
        .iter()
        .map(|(path, text)| (path, code_of(text)))
        .collect();
    // Scripts read others in.
    let functions: BTreeSet<_> = codes
        .iter()
        .flat_map(|(_, code)| functions_of(code))
        .collect();
    let mut unlisted = Vec::new();
    for (path, code) in &codes {
        for program in programs_of(code) {
            let is_known = has(OF_THE_SHELL, &program) || functions.contains(&program);
            if !is_known && !is_listed(&program) {
                unlisted.push(format!("{}: {program}", path.display()));
            }
        }
    }
    assert!(unlisted.is_empty(), "not in needs.txt: {unlisted:#?}");
}

/// What stands between the quotes after each of these words.
fn quoted_after<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = &'a str> {
    let after = text
        .match_indices(words)
        .map(move |(at, _)| &text[at + words.len()..]);
    after.filter_map(|rest| rest.split('"').next())
}

#[test]
fn every_program_that_rust_code_starts_is_listed() {
    // Of cargo's tool chain, of a system with packages, and made-up ones.
    const OTHERS: &str = "apt-get cargo probe rustup";
    let mut unlisted = Vec::new();
    let mut seen = 0;
    for (path, text) in files_of(&["rs"]) {
        let started = ["Command::new(\"", ".command(\""].into_iter();
        let started = started.flat_map(|words| quoted_after(&text, words));
        let preloaded = text.lines().filter(|line| line.contains("preloaded("));
        let preloaded = preloaded.flat_map(|line| quoted_after(line, "Path::new(\""));
        for program in started.chain(preloaded) {
            seen += 1;
            if !program.starts_with("/nonexistent") && !has(OTHERS, program) && !is_listed(program)
            {
                unlisted.push(format!("{}: {program}", path.display()));
            }
        }
    }
    assert!(seen > 50, "programs are started in other words");
    assert!(unlisted.is_empty(), "not in needs.txt: {unlisted:#?}");
}

/// A test that is skipped for want of something asks by [`needs::require`], which reads the list.
#[test]
fn nobody_else_skips_for_want_of_a_program() {
    let is_about_this =
        |line: &&str| line.contains("not installed") || line.contains("pip install");
    let mut others = Vec::new();
    for (path, text) in files_of(&["rs"]) {
        let name = path.to_string_lossy();
        let is_a_test = name.contains("/tests/") || name.contains("/src/");
        let may = ["/testkit/", "/xtask/"]
            .iter()
            .any(|part| name.contains(part));
        if !is_a_test || may {
            continue;
        }
        let skips = text
            .lines()
            .filter(|line| line.to_lowercase().contains("skip"));
        others.extend(
            skips
                .filter(is_about_this)
                .map(|line| format!("{name}: {line}")),
        );
        let by_hand = text
            .lines()
            .filter(|line| line.contains("println!(\"skipped"));
        others.extend(by_hand.map(|line| format!("{name}: {line}")));
    }
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn the_commands_of_a_script_are_found() {
    let script = "# remark | no\n\
        run() { exec first -q; }\n\
        cat >file <<END\nnothing here\nEND\n\
        A=b peer env -u LD_PRELOAD second 'not | this' | third; x=$(fourth); \"$bin/psql; x\" & until_true fifth\n";
    let programs = programs_of(&code_of(script));
    let expected = ["cat", "fifth", "first", "fourth", "run", "second", "third"];
    assert_eq!(programs, expected.map(str::to_owned).into());
    assert!(functions_of(script).contains("run"));
}
