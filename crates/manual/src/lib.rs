//! The manual pages of the tools, from the definition of their command lines: what `--help` says
//! and what the page says are one text.
//!
//! A tool describes its [`Page`] in a test and hands it to [`assert_current`], which compares it
//! with the file in `man/`. With the variable `UPDATE_DOCS` set, the file is written again: `cargo
//! xtask docs` does that for all.
//!
//! Not linked into anything that ships.

#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;

/// What a page is made of, in the order in which it is written.
#[derive(Debug)]
pub struct Page {
    /// The program's name, options and what it is for.
    pub command: Command,
    /// Section of the manual: 1 for users, 8 for administrators.
    pub section: u8,
    /// The program's commands, each with options of its own.
    pub subcommands: Vec<Command>,
    /// What a command line does not say: heading and text in the man(7) macros.
    pub prose: &'static [(&'static str, &'static str)],
    /// Other pages: name and section.
    pub see_also: &'static [(&'static str, u8)],
}

impl Page {
    /// The page's file name, such as `vma_stats.8`.
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.command.get_name(), self.section)
    }

    /// The text of the page.
    pub fn render(&self) -> String {
        let name = self.command.get_name().to_owned();
        let mut page = format!(
            ".\\\" Generated from the command line of {name}; do not edit.\n\
             .\\\" To write it again: cargo xtask docs\n\
             .TH {} {} \"\" \"libvma\" \"{}\"\n",
            name.to_uppercase(),
            self.section,
            manual_of(self.section),
        );
        let man = man(self.command.clone());
        page += &part(&man, Man::render_name_section);
        page += &part(&man, Man::render_synopsis_section);
        page += &part(&man, Man::render_description_section);
        if self
            .command
            .get_arguments()
            .any(|argument| !argument.is_hide_set())
        {
            page += &part(&man, Man::render_options_section);
        }
        for command in &self.subcommands {
            page += &subcommand(command);
        }
        if let Some(note) = self.command.get_after_help() {
            page += &format!(".SH NOTES\n{}\n", escaped(&note.to_string()));
        }
        for (heading, text) in self.prose {
            page += &format!(".SH {heading}\n{}\n", text.trim_matches('\n'));
        }
        if !self.see_also.is_empty() {
            let pages: Vec<String> = self
                .see_also
                .iter()
                .map(|(name, section)| format!(".BR {} ({section})", escaped(name)))
                .collect();
            page += &format!(".SH SEE ALSO\n{}\n", pages.join(" ,\n"));
        }
        tidy(&page)
    }
}

/// Compares the page with the file in `man/`, or writes it there if the variable `UPDATE_DOCS` is
/// set.
///
/// # Panics
///
/// If they differ, with how to write it again.
pub fn assert_current(page: &Page) {
    let path = directory().join(page.file_name());
    let text = page.render();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "man/{} is not what the command line of {} says; to write it again: cargo xtask docs",
        page.file_name(),
        page.command.get_name()
    );
}

/// Where the pages are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man")
}

fn man(command: Command) -> Man {
    Man::new(command.disable_help_subcommand(true))
}

/// One part of a page, without the lines that only set up strings for the whole of it.
fn part(man: &Man, render: fn(&Man, &mut dyn io::Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    // Writing into a vector cannot fail.
    let _ = render(man, &mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // roff's writer sets the apostrophe first, each time.
    text.lines()
        .filter(|line| !line.starts_with(".ie ") && !line.starts_with(".el "))
        .map(|line| line.replace("\\*(Aq", "\\(aq") + "\n")
        .collect()
}

/// A section for a command and its options.
fn subcommand(command: &Command) -> String {
    let mut text = format!(".SH {}\n", quoted(&command.get_name().to_uppercase()));
    if let Some(about) = command.get_about() {
        text += &format!("{}\n", escaped(&about.to_string()));
    }
    let options = part(&man(command.clone()), Man::render_options_section);
    text + options.strip_prefix(".SH OPTIONS\n").unwrap_or(&options)
}

fn manual_of(section: u8) -> &'static str {
    match section {
        8 => "System Manager\\(aqs Manual",
        _ => "General Commands Manual",
    }
}

/// A macro's argument that may have spaces in it.
fn quoted(text: &str) -> String {
    if text.contains(' ') {
        format!("\"{}\"", escaped(text))
    } else {
        escaped(text)
    }
}

/// Text as it is to be seen: hyphens that can be copied into a shell, and no escape sequences or
/// requests.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.as_bytes().first() {
        Some(b'.' | b'\'') => format!("\\&{line}"),
        Some(_) => line.to_owned(),
        None => ".PP".to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Takes out what mandoc and groff warn of: blanks at the end of lines, paragraphs without a text,
/// and breaks after a break.
fn tidy(page: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in page.lines().map(str::trim_end) {
        let opens_section = line.starts_with(".SH") || line.starts_with(".SS");
        if opens_section && lines.last() == Some(&".PP") {
            lines.pop();
        }
        let needless = line.is_empty()
            || (line == ".br" && lines.last() == Some(&".br"))
            || (line == ".PP"
                && lines
                    .last()
                    .is_some_and(|last| *last == ".PP" || last.starts_with(".SH")));
        if !needless {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn page() -> Page {
        let depth = Arg::new("depth").short('d').long("depth").value_name("N");
        Page {
            command: Command::new("probe")
                .about("Looks at things")
                .after_help(".so everything-is \\n text")
                .arg(depth.help("How far to look; -1 is for ever"))
                .arg(Arg::new("secret").long("secret").hide(true)),
            section: 8,
            subcommands: vec![
                Command::new("dig")
                    .about("dig (d): digs")
                    .disable_help_flag(true)
                    .arg(Arg::new("deep").long("deep").num_args(0).help("Deeper")),
            ],
            prose: &[("FILES", "\n.TP\n.I /etc/probe\nIts file.\n")],
            see_also: &[("vma", 7), ("vma_stats", 8)],
        }
    }

    #[test]
    fn a_page_has_what_the_command_line_has_and_the_prose() {
        let text = page().render();
        let sections: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .collect();
        assert_eq!(
            sections,
            [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "OPTIONS",
                "DIG",
                "NOTES",
                "FILES",
                "SEE ALSO"
            ]
        );
        assert!(text.contains("\\-\\-depth") && text.contains("How far to look; \\-1 is for ever"));
        assert!(text.contains("Deeper") && !text.contains("secret"));
        assert!(
            text.ends_with(".BR vma (7) ,\n.BR vma_stats (8)\n"),
            "{text}"
        );
    }

    #[test]
    fn text_becomes_neither_a_request_nor_an_escape() {
        let text = page().render();
        assert!(
            text.contains("\n\\&.so everything\\-is \\en text\n"),
            "{text}"
        );
    }

    #[test]
    fn the_file_is_named_after_program_and_section() {
        assert_eq!(page().file_name(), "probe.8");
    }
}
