//! Puts the files of a package together as they will be installed.

use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Release;
use super::contents::{FILES, File, Format, Generated, Package, Source};
use crate::cargo::{self, Artifacts};
use crate::failure::Failure;
use crate::process::{self, Read};

/// A file that is ready to be packaged.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    pub(crate) content: Content,
    /// Without the slash that it begins with.
    pub(crate) destination: String,
    pub(crate) mode: u32,
    pub(crate) is_configuration: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    File(PathBuf),
    Link(String),
}

/// The targets whose debugging symbols are split off.
const TARGETS: &[&str] = &[
    "vma",
    "vmad",
    "vma-run",
    "vma_stats",
    "sockperf-rs",
    "udp_lat",
];

pub(crate) fn stage(
    built: &Artifacts,
    release: &Release,
    package: Package,
    format: Format,
    home: &Path,
) -> Result<Vec<Asset>, Failure> {
    let root = home.join("root");
    let mut assets = Vec::new();
    let wanted = FILES
        .iter()
        .filter(|file| file.package == package && file.only.is_none_or(|only| only == format));
    for file in wanted {
        let destination = expand(file.destination, release, package, format);
        let staged = root.join(&destination);
        if let Some(parent) = staged.parent() {
            fs::create_dir_all(parent)?;
        }
        let content = match file.source {
            Source::Link(target) => Content::Link(expand(target, release, package, format)),
            source => {
                write(built, release, package, source, &staged)?;
                fs::set_permissions(&staged, fs::Permissions::from_mode(file.mode))?;
                Content::File(staged)
            }
        };
        assets.push(asset(content, destination, file, format));
    }
    if package == Package::Symbols {
        for target in TARGETS {
            assets.push(symbols(built.path(target)?, &root)?);
        }
    }
    Ok(assets)
}

fn asset(content: Content, destination: String, file: &File, format: Format) -> Asset {
    // Libraries are executable in the one world and not in the other.
    let is_library = file.source == Source::Built("vma");
    let mode = if is_library && format == Format::Rpm {
        0o755
    } else {
        file.mode
    };
    Asset {
        content,
        destination,
        mode,
        is_configuration: file.is_configuration,
    }
}

fn expand(text: &str, release: &Release, package: Package, format: Format) -> String {
    let libraries = match format {
        Format::Deb => format!("usr/lib/{}-linux-gnu", env::consts::ARCH),
        Format::Rpm => "usr/lib64".to_owned(),
    };
    text.replace("{lib}", &libraries)
        .replace("{name}", package.name(format))
        .replace("{version}", &release.version)
        .replace("{major}", release.major())
}

/// Debian's name of the processor.
pub(crate) fn debian_architecture() -> &'static str {
    match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn write(
    built: &Artifacts,
    release: &Release,
    package: Package,
    source: Source,
    to: &Path,
) -> Result<(), Failure> {
    let repository = |path: &str| cargo::workspace().join(path);
    match source {
        Source::Built(target) => {
            let mut strip = Command::new("strip");
            strip
                .args(["--strip-unneeded", "-o"])
                .arg(to)
                .arg(built.path(target)?);
            process::run(strip)
        }
        Source::Repository(path) => Ok(fs::copy(repository(path), to).map(drop)?),
        Source::Compressed(path) => compress(&fs::read(repository(path))?, to),
        Source::Generated(Generated::Copyright) => Ok(fs::write(to, copyright()?)?),
        Source::Generated(Generated::DebianChangelog) => {
            compress(debian_changelog(release).as_bytes(), to)
        }
        Source::Generated(Generated::LintianOverrides) => {
            Ok(fs::write(to, lintian_overrides(package))?)
        }
        Source::Generated(Generated::PkgConfig) => Ok(fs::write(to, pkg_config(release))?),
        Source::Link(_) => Ok(()),
    }
}

/// Nothing is linked: a program is compiled with the header, and preloads the library.
fn pkg_config(release: &Release) -> String {
    format!(
        "prefix=/usr\nincludedir=${{prefix}}/include\n\nName: libvma\n\
         Description: moves the sockets of unmodified programs past the kernel\n\
         Version: {}\nCflags: -I${{includedir}}\nLibs:\n",
        release.version
    )
}

/// What lintian is right about in general and not here, each with its reason.
fn lintian_overrides(package: Package) -> String {
    let name = package.name(Format::Deb);
    let mut text = format!(
        "# Not made for an upload to Debian, where a first one closes a bug.\n{name}: initial-upload-closes-no-bugs *\n"
    );
    if package == Package::Library {
        text += LIBRARY_OVERRIDES;
    }
    text
}

const LIBRARY_OVERRIDES: &str = "\
# Programs are started with LD_PRELOAD=libvma.so: that name is no matter of development.
libvma: link-to-shared-library-in-wrong-package *
# Preloaded and never linked with, so no package depends on it through its soname, and its name is VMA's.
libvma: no-shlibs *
libvma: package-name-doesnt-match-sonames *
";

/// As gzip -9n, so that two builds are the same.
fn compress(bytes: &[u8], to: &Path) -> Result<(), Failure> {
    let mut child = Command::new("gzip")
        .args(["-9", "--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(fs::File::create(to)?)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(bytes)?;
    }
    if child.wait()?.success() {
        Ok(())
    } else {
        Err(Failure::Reason(format!("gzip failed on {}", to.display())))
    }
}

/// The debugging symbols of a program or library, where debuggers look for them by its build id.
fn symbols(target: &Path, root: &Path) -> Result<Asset, Failure> {
    let mut readelf = Command::new("readelf");
    readelf.args(["--notes", "--wide"]).arg(target);
    let mut id = None;
    process::run_reading(readelf, Read::Stdout, |line| {
        id = id.take().or_else(|| build_id(line));
    })?;
    let id = id.ok_or_else(|| Failure::Reason(format!("{} has no build id", target.display())))?;
    let (directory, name) = id.split_at(2);
    let destination = format!("usr/lib/debug/.build-id/{directory}/{name}.debug");
    let staged = root.join(&destination);
    if let Some(parent) = staged.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut objcopy = Command::new("objcopy");
    objcopy
        .args(["--only-keep-debug", "--compress-debug-sections"])
        .arg(target)
        .arg(&staged);
    process::run(objcopy)?;
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o644))?;
    Ok(Asset {
        content: Content::File(staged),
        destination,
        mode: 0o644,
        is_configuration: false,
    })
}

fn build_id(line: &str) -> Option<String> {
    let id = line.split_once("Build ID: ")?.1.trim();
    let is_id = id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

fn debian_changelog(release: &Release) -> String {
    format!(
        "libvma ({}) unstable; urgency=medium\n\n  * Release {}; what is new is in changelog.gz.\n\n -- {}  {}\n",
        release.debian(),
        release.version,
        release.maintainer,
        release.date
    )
}

/// The licence, and those of the crates that are part of what is built.
fn copyright() -> Result<String, Failure> {
    let read = |path: &str| fs::read_to_string(cargo::workspace().join(path));
    let licence = read("LICENSE-MIT")?;
    let body = licence
        .lines()
        .skip_while(|line| !line.starts_with("Permission"));
    let mit: Vec<String> = body
        .map(|line| {
            if line.is_empty() {
                " .".to_owned()
            } else {
                format!(" {line}")
            }
        })
        .collect();
    let crates = crates()?;
    Ok(read("packaging/copyright")?
        .replace("@CRATES@", &crates.join("\n"))
        .replace("@MIT@", &mit.join("\n")))
}

/// Name, version and licence of every crate that a package of ours depends on, tests aside.
fn crates() -> Result<Vec<String>, Failure> {
    let arguments = [
        "tree",
        "--locked",
        "--edges=normal",
        "--prefix=none",
        "--format={p}|{l}",
        "--package=libvma",
        "--package=vmad",
        "--package=vma-run",
        "--package=vma-stats",
        "--package=sockperf-rs",
    ];
    let mut lines = Vec::new();
    let status = process::run_reading(cargo::command(&arguments), Read::Stdout, |line| {
        // Those of the workspace have their path behind the version.
        if let Some((name, licence)) = line.split_once('|')
            && !name.contains('(')
            && !name.is_empty()
        {
            lines.push(format!(" {name}: {licence}"));
        }
    })?;
    process::success(&cargo::command(&arguments), status)?;
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_hexadecimal() {
        assert_eq!(
            build_id("    Build ID: 0123abcd"),
            Some("0123abcd".to_owned())
        );
        assert_eq!(build_id("    Build ID: ../../x"), None);
        assert_eq!(build_id("GNU"), None);
    }

    #[test]
    fn the_copyright_names_crates_and_both_licences() {
        let text = copyright().unwrap();
        assert!(
            text.contains("\n libc v0.2") && text.contains(": MIT"),
            "{text}"
        );
        assert!(text.contains("License: Apache-2.0") && text.contains("\n Permission is hereby"));
        assert!(!text.contains('@') && !text.contains("libvma v"), "{text}");
    }
}
