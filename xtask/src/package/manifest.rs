//! The `Cargo.toml` by which cargo-deb or cargo-generate-rpm makes one package.

use std::fs;
use std::path::Path;

use super::Release;
use super::contents::{Format, Package};
use super::stage::{Asset, Content};
use crate::cargo;

pub(crate) fn write(
    release: &Release,
    package: Package,
    format: Format,
    assets: &[Asset],
) -> String {
    let head = format!(
        "[workspace]\n\n[package]\nname = {}\nversion = {}\nedition = \"2024\"\nlicense = \"MIT OR Apache-2.0\"\n\
         description = {}\n\n",
        quoted(package.name(format)),
        quoted(&release.version),
        quoted(package.summary()),
    );
    head + &match format {
        Format::Deb => deb(release, package, assets),
        Format::Rpm => rpm(release, package, assets),
    }
}

fn deb(release: &Release, package: Package, assets: &[Asset]) -> String {
    let version = release.debian();
    let (section, depends) = match package {
        // What the library unwinds with is not found by itself.
        Package::Library => ("net", "$auto, libgcc-s1".to_owned()),
        Package::Utilities => ("net", format!("$auto, libvma (= {version})")),
        Package::Development => ("libdevel", format!("libvma (= {version})")),
        Package::Symbols => ("debug", format!("libvma (= {version})")),
    };
    let mut text = format!(
        "[package.metadata.deb]\nmaintainer = {}\ncopyright = \"The libvma-rs authors\"\nsection = {}\npriority = \"optional\"\n\
         extended-description = {}\ndepends = {}\n",
        quoted(release.maintainer),
        quoted(section),
        quoted(package.description()),
        quoted(&depends),
    );
    if package == Package::Library {
        let scripts = cargo::workspace().join("packaging/debian");
        text += &format!(
            "maintainer-scripts = {}\ntriggers-file = {}\n",
            path(&scripts),
            path(&scripts.join("triggers"))
        );
        // The original's tools and headers are of another library.
        let others = ["libvma-utils", "libvma-dev", "libvma-dbg"];
        let older = others
            .map(|name| format!("{name} (<< {}:0~)", Release::EPOCH))
            .join(", ");
        text += &format!("breaks = {0}\nreplaces = {0}\n", quoted(&older));
        text += "recommends = \"libvma-utils\"\n";
    }
    let lines = assets.iter().map(|asset| match &asset.content {
        Content::File(file) => format!(
            "    [{}, {}, \"{:o}\"],\n",
            path(file),
            quoted(&asset.destination),
            asset.mode
        ),
        Content::Link(target) => format!(
            "    {{ dest = {}, link_name = {} }},\n",
            quoted(&asset.destination),
            quoted(target)
        ),
    });
    text + "assets = [\n" + &lines.collect::<String>() + "]\n"
}

fn rpm(release: &Release, package: Package, assets: &[Asset]) -> String {
    let mut text = format!(
        "[package.metadata.generate-rpm]\nsummary = {}\nepoch = {}\nrelease = \"{}\"\nvendor = \"libvma-rs\"\n",
        quoted(&capitalized(package.summary())),
        Release::EPOCH,
        Release::REVISION,
    );
    if package == Package::Library {
        for (key, file) in [
            ("post_install_script", "post.sh"),
            ("pre_uninstall_script", "preun.sh"),
            ("post_uninstall_script", "postun.sh"),
        ] {
            let script = cargo::workspace().join("packaging/rpm").join(file);
            // A script that is missing shows when the package is tried.
            let script = fs::read_to_string(script).unwrap_or_default();
            let script = script.replace("@MAJOR@", release.major());
            let script = script.replace("@VERSION@", &release.version);
            text += &format!("{key} = {}\n", quoted(&script));
        }
    } else {
        text += "require-sh = false\n";
    }
    let lines = assets.iter().filter_map(|asset| {
        let Content::File(file) = &asset.content else {
            return None;
        };
        let kind = if asset.is_configuration {
            ", config = \"noreplace\""
        } else if is_document(&asset.destination) {
            ", doc = true"
        } else {
            ""
        };
        Some(format!(
            "    {{ source = {}, dest = {}, mode = \"{:o}\"{kind} }},\n",
            path(file),
            quoted(&format!("/{}", asset.destination)),
            asset.mode
        ))
    });
    text += &format!("assets = [\n{}]\n", lines.collect::<String>());
    let full = format!(
        "{}:{}-{}",
        Release::EPOCH,
        release.version,
        Release::REVISION
    );
    match package {
        Package::Library => {
            text += "\n[package.metadata.generate-rpm.conflicts]\n\
                     libvma-devel = \"< 1:0\"\nlibvma-utils = \"< 1:0\"\n";
            text += "\n[package.metadata.generate-rpm.provides]\n";
            for major in [release.major(), "9", "8"] {
                text += &format!("\"libvma.so.{major}()(64bit)\" = \"\"\n");
            }
        }
        Package::Utilities | Package::Development | Package::Symbols => {
            text += &format!("\n[package.metadata.generate-rpm.requires]\nlibvma = \"= {full}\"\n");
            if package == Package::Development {
                // As rpmbuild finds out from the .pc file.
                let version = &release.version;
                text += &format!(
                    "\n[package.metadata.generate-rpm.provides]\n\"pkgconfig(libvma)\" = \"= {version}\"\n"
                );
            }
        }
    }
    text
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

fn is_document(destination: &str) -> bool {
    ["usr/share/doc/", "usr/share/man/"]
        .iter()
        .any(|directory| destination.starts_with(directory))
}

/// A string of TOML. Its escapes are those of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release() -> Release {
        Release {
            version: "1.2.3".to_owned(),
            date: String::new(),
            maintainer: "Somebody <x@y.example>",
        }
    }

    fn asset(destination: &str, is_configuration: bool) -> Asset {
        Asset {
            content: Content::File("/staged/file".into()),
            destination: destination.to_owned(),
            mode: 0o644,
            is_configuration,
        }
    }

    #[test]
    fn configuration_is_kept_by_rpm() {
        let assets = [
            asset("etc/libvma.conf", true),
            asset("usr/share/doc/libvma/x", false),
        ];
        let text = write(&release(), Package::Library, Format::Rpm, &assets);
        assert!(
            text.contains("dest = \"/etc/libvma.conf\", mode = \"644\", config = \"noreplace\"")
        );
        assert!(text.contains("dest = \"/usr/share/doc/libvma/x\", mode = \"644\", doc = true"));
        assert!(
            text.contains("ln -sfn libvma.so.1 ") && text.contains("epoch = 1\n"),
            "{text}"
        );
        assert!(
            text.contains("ln -sfn libvma.so.1.2.3 /usr/lib64/libvma.so.1\\n"),
            "{text}"
        );
    }

    #[test]
    fn the_originals_tools_do_not_stay_beside_the_library() {
        let text = write(&release(), Package::Library, Format::Deb, &[]);
        assert!(
            text.contains(
                "breaks = \"libvma-utils (<< 1:0~), libvma-dev (<< 1:0~), libvma-dbg (<< 1:0~)\""
            ),
            "{text}"
        );
        let text = write(&release(), Package::Utilities, Format::Deb, &[]);
        assert!(
            text.contains("depends = \"$auto, libvma (= 1:1.2.3-1)\""),
            "{text}"
        );
    }

    #[test]
    fn who_asks_for_the_pc_file_finds_its_package() {
        let text = write(&release(), Package::Development, Format::Rpm, &[]);
        assert!(
            text.contains("\"pkgconfig(libvma)\" = \"= 1.2.3\""),
            "{text}"
        );
        let text = write(&release(), Package::Utilities, Format::Rpm, &[]);
        assert!(!text.contains("pkgconfig("), "{text}");
    }

    #[test]
    fn links_are_made_by_debs_only() {
        let link = Asset {
            content: Content::Link("libvma.so.1".to_owned()),
            ..asset("usr/lib/libvma.so", false)
        };
        let assets = [link];
        let deb = write(&release(), Package::Library, Format::Deb, &assets);
        assert!(deb.contains("{ dest = \"usr/lib/libvma.so\", link_name = \"libvma.so.1\" }"));
        let rpm = write(&release(), Package::Library, Format::Rpm, &assets);
        assert!(rpm.contains("assets = [\n]"), "{rpm}");
    }
}
