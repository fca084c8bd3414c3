//! What is shipped for those who deploy: units of systemd, a container's recipe, a manifest of
//! Kubernetes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::{needs, or_skip};

const UNITS: [&str; 2] = ["vma.service", "vma-broker.service"];

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(packaging(file)).unwrap()
}

/// Returns what systemd finds in the units, in a root that has the programs that they start.
fn verify(change: impl Fn(String) -> String) -> Result<(), String> {
    let root = tempfile::tempdir().unwrap();
    let units = root.path().join("usr/lib/systemd/system");
    fs::create_dir_all(&units).unwrap();
    for unit in UNITS {
        fs::write(units.join(unit), change(read(unit))).unwrap();
    }
    for program in ["usr/sbin/vmad", "bin/kill"] {
        let file = root.path().join(program);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(format!("--root={}", root.path().display()))
        .args(UNITS)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() && said.is_empty() {
        true => Ok(()),
        false => Err(said),
    }
}

#[test]
fn systemd_takes_the_units() {
    or_skip!(needs::require(&["systemd-analyze"]));
    assert_eq!(verify(|unit| unit), Ok(()));
    let misspelt = verify(|unit| unit.replace("Restart=", "Restrt="));
    assert!(misspelt.unwrap_err().contains("Restrt"));
}

/// A YAML file's documents.
fn documents(text: &str) -> Vec<Value> {
    const SCRIPT: &str =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn named<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    documents.iter().find(|it| it["kind"] == kind).unwrap()
}

fn words(list: &Value) -> BTreeSet<&str> {
    let words = list.as_array().into_iter().flatten();
    words.map(|it| it.as_str().unwrap()).collect()
}

#[test]
fn the_manifest_is_whole_and_agrees_with_the_units() {
    or_skip!(needs::require(&["python3", "python:yaml"]));
    let documents = documents(&read("kubernetes/vma.yaml"));
    let kinds: Vec<_> = documents.iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["Namespace", "ConfigMap", "DaemonSet", "Pod"]);
    for document in &documents {
        assert!(document["apiVersion"].is_string() && document["metadata"]["name"].is_string());
    }
    let set = &named(&documents, "DaemonSet")["spec"];
    let template = &set["template"];
    assert_eq!(
        set["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
    let pod = &named(&documents, "Pod")["spec"];
    assert_volumes(&template["spec"]);
    assert_volumes(pod);

    // The rights of the broker are those of the service.
    let broker = &template["spec"]["containers"][0];
    let unit = read("vma-broker.service");
    let set_of_unit = unit
        .lines()
        .find_map(|line| line.strip_prefix("CapabilityBoundingSet="))
        .unwrap();
    let of_unit: BTreeSet<_> = set_of_unit
        .split(' ')
        .map(|it| it.strip_prefix("CAP_").unwrap())
        .collect();
    let capabilities = &broker["securityContext"]["capabilities"];
    assert_eq!(words(&capabilities["add"]), of_unit);
    // The program has none.
    let program = &pod["containers"][0]["securityContext"]["capabilities"];
    assert_eq!(words(&program["drop"]), BTreeSet::from(["ALL"]));
    assert!(program["add"].is_null());

    // Whom the broker is to serve is the user that the program runs as.
    let policy = named(&documents, "ConfigMap")["data"]["vmad.conf"].as_str();
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert_eq!(policy.unwrap().trim_end(), format!("allow user {user}"));

    // The socket is in both where each looks for it.
    for container in [broker, &pod["containers"][0]] {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let socket = mounts.iter().find(|it| it["name"] == "socket").unwrap();
        let directory = socket["mountPath"].as_str().unwrap();
        assert!(stats_socket().starts_with(directory), "{directory}");
    }
}

/// As the library and the broker have it.
fn stats_socket() -> String {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/parameters.md");
    let table = fs::read_to_string(table).unwrap();
    let at = table.find("/run/vma/").unwrap();
    let end = table[at..].find(|it: char| !(it.is_alphanumeric() || "/.".contains(it)));
    table[at..][..end.unwrap()].to_owned()
}

/// What is mounted is declared, and what is declared is mounted.
fn assert_volumes(pod: &Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let declared: Vec<_> = list(&pod["volumes"]);
    let declared: BTreeSet<_> = declared.iter().map(|it| it["name"].to_string()).collect();
    let containers = [list(&pod["containers"]), list(&pod["initContainers"])].concat();
    let mounts: Vec<_> = containers
        .iter()
        .flat_map(|it| list(&it["volumeMounts"]))
        .collect();
    let mounted: BTreeSet<_> = mounts.iter().map(|it| it["name"].to_string()).collect();
    assert_eq!(declared, mounted);
}

/// The recipe takes packages by names that they have, and starts what they bring.
#[test]
fn the_recipe_of_the_image_takes_what_is_packaged() {
    let recipe = read("container/Containerfile");
    let contents =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/package/contents.rs"))
            .unwrap();
    let copied = recipe
        .lines()
        .find(|it| it.starts_with("COPY lib"))
        .unwrap();
    let packages: Vec<_> = copied
        .split_whitespace()
        .filter(|it| it.ends_with(".deb"))
        .collect();
    assert_eq!(packages, ["libvma_*.deb", "libvma-utils_*.deb"]);
    for package in packages {
        let name = package.strip_suffix("_*.deb").unwrap();
        assert!(contents.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(contents.contains("\"usr/sbin/vmad\""));
    // The script inside is one that a shell takes.
    let script = recipe.split("<<'SCRIPT'").nth(1).unwrap();
    let (_, script) = script.split_once('\n').unwrap();
    let script = script.split("\nSCRIPT\n").next().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-n", "-c", script]);
    assert!(shell.status().unwrap().success());
}
