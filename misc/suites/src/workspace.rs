//! What cargo knows of the workspace: packages, where they are, what they stand on, and which programs their tests are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// From the root.
    pub(crate) folder: String,
    pub(crate) targets: Vec<Target>,
    /// Packages of the workspace that it names, for its tests too.
    pub(crate) depends_on: Vec<String>,
}

/// What cargo makes a test program of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `lib`, or the name of the program or test.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Its first file, from the root.
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lib,
    Bin,
    Test,
}

/// The workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) packages: Vec<Package>,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn read(root: &Path) -> Result<Workspace> {
        let output = Command::new("cargo")
            .current_dir(root)
            .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
            .output()
            .context("run cargo metadata")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).context("what cargo metadata prints")?;
        Workspace::of(&metadata, root)
    }

    fn of(metadata: &Value, root: &Path) -> Result<Workspace> {
        let packages = list(metadata, "packages").iter().map(|package| read_package(package, root));
        Ok(Workspace { packages: packages.collect::<Result<_>>()? })
    }

    /// The package of this name, also without our prefix.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name || short(&package.name) == name)
    }

    /// The names of a package and of everything in the workspace that it stands on.
    pub(crate) fn stands_on(&self, name: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Package> = self.package(name).into_iter().collect();
        while let Some(package) = open.pop() {
            if found.insert(package.name.as_str()) {
                open.extend(package.depends_on.iter().filter_map(|name| self.package(name)));
            }
        }
        found
    }

    /// The package that a file belongs to: the one with the longest folder.
    pub(crate) fn owner(&self, path: &str) -> Option<&Package> {
        let owns = |package: &&Package| is_within(path, &package.folder);
        self.packages.iter().filter(owns).max_by_key(|package| package.folder.len())
    }
}

/// A package's name without what all of ours begin with.
pub(crate) fn short(name: &str) -> &str {
    name.strip_prefix("glimpse-").unwrap_or(name)
}

/// Whether a path is this folder or file, or below it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read_package(package: &Value, root: &Path) -> Result<Package> {
    let manifest = Path::new(text(package, "manifest_path"));
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let depends_on = list(package, "dependencies").iter().filter(|dependency| dependency.get("path").is_some());
    let targets = list(package, "targets").iter();
    Ok(Package {
        name: text(package, "name").to_owned(),
        folder: from_root(folder, root)?,
        targets: targets.filter_map(|target| read_target(target, root).transpose()).collect::<Result<_>>()?,
        depends_on: depends_on.map(|dependency| text(dependency, "name").to_owned()).collect(),
    })
}

/// `None` for what has no tests. Tests that no suite would run are an error.
fn read_target(target: &Value, root: &Path) -> Result<Option<Target>> {
    let kind = list(target, "kind").first().and_then(Value::as_str).unwrap_or_default();
    let (kind, has_tests) = match kind {
        "lib" => (Kind::Lib, target["test"] == true),
        "bin" => (Kind::Bin, target["test"] == true),
        "test" => (Kind::Test, target["test"] == true),
        "custom-build" => return Ok(None),
        _ => {
            let source = text(target, "src_path");
            ensure!(
                target["test"] != true,
                "{source}: bin/test runs no tests of a {kind}; its target says `test = false`"
            );
            return Ok(None);
        }
    };
    if kind == Kind::Lib {
        let source = text(target, "src_path");
        ensure!(
            target["doctest"] != true,
            "{source}: bin/test runs no documentation tests; its [lib] says `doctest = false`"
        );
    }
    if !has_tests {
        return Ok(None);
    }
    let name = if kind == Kind::Lib { "lib" } else { text(target, "name") };
    let source = from_root(Path::new(text(target, "src_path")), root)?;
    Ok(Some(Target { name: name.to_owned(), kind, source }))
}

fn from_root(path: &Path, root: &Path) -> Result<String> {
    let path = path.strip_prefix(root).with_context(|| format!("{} is not in the workspace", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// `sql` stands on `repr`; `test` has the tests `wire` and `views`, and stands on neither.
    pub(crate) fn small() -> Workspace {
        let target =
            |kind: &str, name: &str, path: &str| json!({"kind": [kind], "name": name, "src_path": path, "test": true});
        let package = |name: &str, folder: &str, targets: Vec<Value>, dependencies: Vec<Value>| {
            json!({"name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"), "targets": targets,
                "dependencies": dependencies})
        };
        let on = |name: &str| json!({"name": name, "path": "/r/somewhere"});
        let metadata = json!({"packages": [
            package("glimpse-repr", "src/repr", vec![target("lib", "glimpse_repr", "/r/src/repr/src/lib.rs")], vec![]),
            package("glimpse-sql", "src/sql", vec![
                target("lib", "glimpse_sql", "/r/src/sql/src/lib.rs"),
                target("custom-build", "build-script-build", "/r/src/sql/build.rs"),
            ], vec![on("glimpse-repr"), json!({"name": "serde"})]),
            package("glimpse-test", "test", vec![
                target("test", "wire", "/r/test/tests/wire.rs"),
                target("test", "views", "/r/test/tests/views.rs"),
            ], vec![]),
        ]});
        Workspace::of(&metadata, Path::new("/r")).unwrap()
    }

    #[test]
    fn packages_and_what_they_stand_on() {
        let workspace = small();
        assert_eq!(workspace.stands_on("sql").into_iter().collect::<Vec<_>>(), ["glimpse-repr", "glimpse-sql"]);
        assert_eq!(workspace.package("test").unwrap().targets[1].source, "test/tests/views.rs");
        assert_eq!(workspace.package("sql").unwrap().targets.len(), 1);
    }

    #[test]
    fn a_file_belongs_to_the_innermost_package() {
        let workspace = small();
        assert_eq!(workspace.owner("test/tests/wire.rs").unwrap().name, "glimpse-test");
        assert!(workspace.owner("testing/x.rs").is_none());
        assert!(
            is_within("src/sql", "src/sql") && is_within("src/sql/x", "src/sql/") && !is_within("src/sqlx", "src/sql")
        );
    }
}
