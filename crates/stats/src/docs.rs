//! `docs/statistics.md`, written from the tables.

use std::fmt::Write;

use crate::field::FieldKind;
use crate::schema::FieldInfo;
use crate::sections::{PLANNED, SECTIONS, SectionInfo};

/// The page.
fn page() -> String {
    let mut page = String::from(
        "# Statistics\n\n\
         <!-- Generated from crates/stats; do not edit.\n     \
         To write it again: UPDATE_DOCS=1 cargo test -p stats docs_are_current -->\n\n\
         What a process publishes in `<VMA_STATS_SHMEM_DIR>/vmastat.<pid>`, and what `vma_stats --json` prints under the same \
         names. `vma_stats --csv=SECTION` prints one section, `vma_stats --prometheus` the numbers, summed by program, protocol, state and reason, or of each socket (`--per_socket`).\n\n\
         In JSON, as `vma_stats record` writes it, too, sections that hardly ever change (`reasons`, `settings`, `rules`, \
         `closed_sockets`, `notes`, `events`) are in the first document, and in those where they are not as before; `unchanged` \
         names those that are left out. Sockets say in words why the kernel has them (`why`) or has carried packets \
         (`rx_os_why`, `tx_os_why`). In CSV, reasons are words, and times are five columns: `_count`, `_p50`, `_p90`, `_p99` \
         and `_p999`, in nanoseconds.\n\n\
         A *counter* only grows, and starts at 0 again when somebody asks for it (`vma_stats -z`). A *gauge* rises and falls. A \
         *peak* is the most that a gauge ever was.\n",
    );
    for section in SECTIONS {
        push_section(&mut page, section);
    }
    page
}

fn push_section(page: &mut String, section: &SectionInfo) {
    let _ = writeln!(
        page,
        "\n## {}\n\n{}.",
        section.name,
        capitalized(section.help)
    );
    if let Some(why) = planned(section, "") {
        let _ = writeln!(page, "\n*Empty until there are:* {why}.");
    }
    let _ = writeln!(page, "\n| field | kind | unit | |\n|---|---|---|---|");
    for field in section.fields {
        let planned = planned(section, field.name).map_or_else(String::new, |why| {
            format!(" *Not counted yet; waits for:* {why}.")
        });
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {}.{planned} |",
            field.name,
            kind(field),
            field.unit,
            capitalized(field.help)
        );
    }
}

fn planned(section: &SectionInfo, field: &str) -> Option<&'static str> {
    // Closed sockets have the entries of open ones.
    let section = section.name.trim_start_matches("closed_");
    let mut planned = PLANNED.iter();
    planned.find_map(|(name, waiting, why)| (*name == section && *waiting == field).then_some(*why))
}

fn kind(field: &FieldInfo) -> &'static str {
    match field.kind {
        FieldKind::Identity => "",
        FieldKind::Counter => "counter",
        FieldKind::Gauge => "gauge",
        FieldKind::Peak => "peak",
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[test]
fn docs_are_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/statistics.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        written,
        page(),
        "docs/statistics.md is not current: UPDATE_DOCS=1"
    );
}
