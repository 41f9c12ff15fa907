//! Compiles what the chosen suites run, and installs what they need meanwhile.
//!
//! cargo says in JSON what it made. So this knows where each test program is, and sees when one library was made twice with
//! different features, which costs minutes of every build and is only ever an accident: `misc/unify` has the remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::map::Program;
use crate::select::Chosen;
use crate::workspace::Workspace;

/// The package of the server, which most suites ask.
const SERVER: &str = "glimpse-environmentd";

/// What was built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Built {
    /// Test programs, each with the folder of its package, where it runs.
    pub(crate) programs: BTreeMap<Program, (PathBuf, PathBuf)>,
    /// The reports of where cargo's time went, if they were asked for.
    pub(crate) reports: Vec<PathBuf>,
}

/// An installation that goes on beside the build.
pub(crate) struct Prepared(Option<Child>);

impl Prepared {
    /// Waits until what could be installed is there. What could not be was named.
    pub(crate) fn wait(self) -> Result<()> {
        if let Some(mut child) = self.0 {
            ensure!(child.wait()?.success(), "misc/prepare.sh failed");
        }
        Ok(())
    }
}

/// Begins to install what suites need.
pub(crate) fn prepare(chosen: &[Chosen<'_>], install: bool) -> Result<Prepared> {
    let mut needs: BTreeSet<&str> = chosen.iter().flat_map(|chosen| &chosen.suite.needs).map(String::as_str).collect();
    // bin/test --against-postgres.
    if std::env::var("GLIMPSE_TEST_TARGET").is_ok_and(|target| target == "postgres") {
        needs.insert("postgres");
    }
    if needs.is_empty() || !install {
        return Ok(Prepared(None));
    }
    let child = Command::new("bash").arg("misc/prepare.sh").args(needs).stdin(Stdio::null()).spawn();
    Ok(Prepared(Some(child.context("run misc/prepare.sh")?)))
}

/// Compiles. `whole` is the build of everything: all programs and tests, in which no library may be made twice.
pub(crate) fn build(workspace: &Workspace, chosen: &[Chosen<'_>], whole: bool, timings: bool) -> Result<Built> {
    let mut cargo = Cargo { timings, reports: Vec::new() };
    let programs: Vec<&Program> = chosen.iter().flat_map(|chosen| &chosen.suite.programs).collect();
    let mut artifacts;
    if whole {
        artifacts = cargo.run(&["build", "--workspace", "--bins"])?;
        let of_tests = cargo.run(&["test", "--workspace", "--no-run"])?;
        check_once(&artifacts, &of_tests)?;
        artifacts.extend(of_tests);
    } else {
        artifacts = Vec::new();
        if programs.iter().any(|program| !program.is_unit) {
            artifacts = cargo.run(&["build", "--package", SERVER, "--bin", "environmentd"])?;
        }
        for arguments in selections(&programs) {
            let mut all = vec!["test", "--no-run"];
            all.extend(arguments.iter().map(String::as_str));
            artifacts.extend(cargo.run(&all)?);
        }
    }
    let mut built = Built { programs: BTreeMap::new(), reports: cargo.reports };
    for program in programs {
        let package = workspace.package(&program.package).context("the map knows packages")?;
        let made = artifacts.iter().find(|artifact| {
            artifact.executable.is_some()
                && artifact.folder.ends_with(&package.folder)
                && artifact.target == program.target
        });
        let Some(Artifact { executable: Some(executable), folder, .. }) = made else {
            bail!("cargo made no program of {}:{}", program.package, program.target);
        };
        built.programs.insert(program.clone(), (executable.clone(), folder.clone()));
    }
    Ok(built)
}

/// One cargo command for all libraries' and programs' own tests, one for all tests beside them: each selects by kind.
fn selections(programs: &[&Program]) -> Vec<Vec<String>> {
    let (own, beside): (Vec<&Program>, Vec<&Program>) = programs.iter().partition(|program| program.is_unit);
    let packages = |programs: &[&Program]| -> Vec<String> {
        let names: BTreeSet<&str> = programs.iter().map(|program| program.package.as_str()).collect();
        names.into_iter().flat_map(|name| ["--package".to_owned(), name.to_owned()]).collect()
    };
    let mut selections = Vec::new();
    if !own.is_empty() {
        let mut targets: Vec<String> = Vec::new();
        for program in &own {
            match program.target.as_str() {
                "lib" if targets.iter().any(|target| target == "--lib") => {}
                "lib" => targets.push("--lib".to_owned()),
                name => targets.extend(["--bin".to_owned(), name.to_owned()]),
            }
        }
        selections.push([packages(&own), targets].concat());
    }
    if !beside.is_empty() {
        let targets = beside.iter().flat_map(|program| ["--test".to_owned(), program.target.clone()]);
        // With the server's package, so that features are those with which it was built.
        let server = vec!["--package".to_owned(), SERVER.to_owned()];
        selections.push([server, packages(&beside), targets.collect()].concat());
    }
    selections
}

struct Cargo {
    timings: bool,
    reports: Vec<PathBuf>,
}

/// Something that cargo made, or found made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Artifact {
    package: String,
    /// Of the package.
    folder: PathBuf,
    /// `lib`, or the name of a program or test.
    target: String,
    /// A library as others use it.
    is_library: bool,
    features: Vec<String>,
    files: Vec<String>,
    /// Of tests.
    executable: Option<PathBuf>,
}

impl Cargo {
    fn run(&mut self, arguments: &[&str]) -> Result<Vec<Artifact>> {
        let mut command = Command::new("cargo");
        command.args(arguments).arg("--message-format=json-render-diagnostics");
        if self.timings {
            command.arg("--timings");
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("run cargo")?;
        let output = child.stdout.take().context("cargo's output is piped")?;
        let mut artifacts = Vec::new();
        for line in BufReader::new(output).lines() {
            let message: Value = serde_json::from_str(&line?).context("what cargo says in JSON")?;
            if message["reason"] == "compiler-artifact" {
                artifacts.push(Artifact::of(&message)?);
            }
        }
        ensure!(child.wait()?.success(), "cargo {} failed", arguments.join(" "));
        if self.timings {
            let copy =
                std::env::temp_dir().join(format!("cargo-timing-{}-{}.html", std::process::id(), self.reports.len()));
            std::fs::copy(crate::target_dir()?.join("cargo-timings/cargo-timing.html"), &copy)?;
            self.reports.push(copy);
        }
        Ok(artifacts)
    }
}

impl Artifact {
    fn of(message: &Value) -> Result<Artifact> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().map_or_else(Vec::new, |all| all.iter().map(text).collect());
        let target = &message["target"];
        let kinds = texts(&target["kind"]);
        let is_test = message["profile"]["test"] == true;
        let is_lib = kinds.iter().any(|kind| kind == "lib" || kind == "rlib");
        let manifest = text(&message["manifest_path"]);
        Ok(Artifact {
            package: text(&message["package_id"]),
            folder: Path::new(&manifest).parent().context("a manifest is in a folder")?.to_owned(),
            target: if is_lib { "lib".to_owned() } else { text(&target["name"]) },
            is_library: is_lib && !is_test,
            features: texts(&message["features"]),
            files: texts(&message["filenames"]),
            executable: message["executable"].as_str().filter(|_| is_test).map(PathBuf::from),
        })
    }
}

/// The tests use the libraries of the programs: what those were made of is not made again.
fn check_once(programs: &[Artifact], tests: &[Artifact]) -> Result<()> {
    let known: BTreeSet<&str> = programs.iter().map(|artifact| artifact.package.as_str()).collect();
    let made: BTreeSet<&String> = programs.iter().flat_map(|artifact| &artifact.files).collect();
    let is_again = |artifact: &&Artifact| {
        artifact.is_library
            && known.contains(artifact.package.as_str())
            && artifact.files.iter().any(|file| !made.contains(file))
    };
    let Some(again) = tests.iter().find(is_again) else { return Ok(()) };
    let first = programs.iter().find(|artifact| artifact.is_library && artifact.package == again.package);
    let of_first = first.map_or(&[][..], |artifact| &artifact.features[..]);
    let differ = again.features.iter().filter(|feature| !of_first.contains(feature));
    let differ: Vec<&str> =
        differ.chain(of_first.iter().filter(|feature| !again.features.contains(feature))).map(String::as_str).collect();
    bail!(
        "{} is compiled twice, for programs and for tests: only one of the two has the features {differ:?}. If there are none, what \
         it stands on is compiled twice. Name the lowest such package in misc/unify/Cargo.toml, with these features.",
        again.package
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn library(name: &str, features: &[&str], file: &str) -> Artifact {
        let message = json!({"package_id": name, "manifest_path": "/r/x/Cargo.toml", "features": features, "filenames": [file],
            "target": {"kind": ["lib"], "name": "x"}, "profile": {"test": false}, "executable": null});
        Artifact::of(&message).unwrap()
    }

    #[test]
    fn a_library_made_twice_is_found() {
        let programs = [library("a", &["std"], "a1"), library("b", &[], "b1")];
        let same = [library("a", &["std"], "a1"), library("only_of_tests", &[], "c1")];
        check_once(&programs, &same).unwrap();
        let again = [library("a", &["std", "rc"], "a2")];
        let error = check_once(&programs, &again).unwrap_err().to_string();
        assert!(error.contains("a is compiled twice") && error.contains("[\"rc\"]"), "{error}");
    }

    #[test]
    fn a_test_program_is_no_library() {
        let message = json!({"package_id": "a", "manifest_path": "/r/a/Cargo.toml", "features": [], "filenames": ["t"],
            "target": {"kind": ["lib"], "name": "a"}, "profile": {"test": true}, "executable": "/t/a-1"});
        let artifact = Artifact::of(&message).unwrap();
        assert!(!artifact.is_library);
        assert_eq!((artifact.target.as_str(), artifact.executable), ("lib", Some("/t/a-1".into())));
    }

    #[test]
    fn tests_are_built_in_two_commands() {
        let program = |package: &str, target: &str| Program {
            package: package.into(),
            target: target.into(),
            is_unit: target == "lib",
        };
        let (lib, wire, views) = (program("p", "lib"), program("t", "wire"), program("t", "views"));
        let tool = Program { is_unit: true, ..program("q", "tool") };
        let selections = selections(&[&lib, &program("r", "lib"), &tool, &wire, &views]);
        assert_eq!(selections[0].join(" "), "--package p --package q --package r --lib --bin tool");
        assert_eq!(selections[1], ["--package", SERVER, "--package", "t", "--test", "wire", "--test", "views"]);
    }
}
