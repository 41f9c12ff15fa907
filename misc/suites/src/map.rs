//! `test/suites.txt`: which suites there are, what each may take, what it needs, and what touches it.
//!
//! A line is `NAME SECONDS PROGRAM[,PROGRAM…] NEED[,NEED…] TOUCHED-BY…`, or `WORD = …` to name a list. A program is
//! `package:target`, where `lib` is a library's own tests. What touches a suite is a package (without our prefix), a file, a
//! folder, or `@WORD`. A suite is touched without being told by its own packages and by all that these stand on.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{Kind, Package, Target, Workspace, short};

/// Where the map is, from the root.
pub(crate) const PATH: &str = "test/suites.txt";

/// Tests that are run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) name: String,
    /// What it may take on two cores, in seconds: printed beside what it took, and never asserted.
    pub(crate) budget: u64,
    pub(crate) programs: Vec<Program>,
    /// What must be installed, in the words of misc/prepare.sh.
    pub(crate) needs: Vec<String>,
    /// Packages, files and folders.
    pub(crate) touched_by: Vec<String>,
}

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    pub(crate) package: String,
    pub(crate) target: String,
    /// Whether its tests stand in what they test, or beside it in a file that asks a server.
    pub(crate) is_unit: bool,
}

/// The map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Map {
    /// In the order of the file.
    pub(crate) suites: Vec<Suite>,
    /// Files and folders that touch every suite.
    pub(crate) all: Vec<String>,
    /// Files and folders that touch none.
    pub(crate) none: Vec<String>,
}

impl Map {
    pub(crate) fn read(root: &Path, workspace: &Workspace) -> Result<Map> {
        let text = std::fs::read_to_string(root.join(PATH)).with_context(|| format!("read {PATH}"))?;
        let map = Map::parse(&text, workspace)?;
        map.check(workspace, &|path| root.join(path).exists())?;
        Ok(map)
    }

    pub(crate) fn parse(text: &str, workspace: &Workspace) -> Result<Map> {
        let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut map = Map::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let result = match line.split_once(" = ") {
                _ if line.is_empty() => Ok(()),
                Some((name, items)) => {
                    resolve(items, &lists, workspace).map(|items| drop(lists.insert(name.trim(), items)))
                }
                None => read_suite(line, &lists, workspace).map(|suite| map.suites.push(suite)),
            };
            result.with_context(|| format!("{PATH}:{}", index + 1))?;
        }
        map.all = lists.remove("all").unwrap_or_default();
        map.none = lists.remove("none").unwrap_or_default();
        Ok(map)
    }

    /// Every test program is in one suite, and every path there is.
    fn check(&self, workspace: &Workspace, exists: &dyn Fn(&str) -> bool) -> Result<()> {
        let touching = self.suites.iter().flat_map(|suite| &suite.touched_by).chain(&self.all).chain(&self.none);
        for item in touching {
            ensure!(workspace.package(item).is_some() || exists(item), "{item} is no package and no path");
        }
        let mut named: Vec<&Program> = self.suites.iter().flat_map(|suite| &suite.programs).collect();
        named.sort();
        if let Some(twice) = named.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("{PATH} names {}:{} twice", twice[0].package, twice[0].target);
        }
        let mut names: Vec<&str> = self.suites.iter().map(|suite| suite.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("{PATH} has two suites {}", twice[0]);
        }
        for package in &workspace.packages {
            for target in &package.targets {
                let program = program_of(package, target);
                ensure!(
                    named.binary_search(&&program).is_ok(),
                    "no suite of {PATH} has {}:{} ({}); a program without tests says `test = false`",
                    short(&program.package),
                    program.target,
                    target.source
                );
            }
        }
        Ok(())
    }
}

fn read_suite(line: &str, lists: &BTreeMap<&str, Vec<String>>, workspace: &Workspace) -> Result<Suite> {
    let mut words = line.split_whitespace();
    let [Some(name), Some(budget), Some(programs), Some(needs)] = std::array::from_fn(|_| words.next()) else {
        bail!("a suite has a name, seconds, programs and needs");
    };
    let touched_by = resolve(&words.collect::<Vec<_>>().join(" "), lists, workspace)?;
    let programs = programs.split(',').map(|program| read_program(program, workspace)).collect::<Result<_>>()?;
    let needs = needs.split(',').filter(|need| *need != "-").map(str::to_owned).collect();
    let budget = budget.parse().with_context(|| format!("{budget} is no number of seconds"))?;
    Ok(Suite { name: name.to_owned(), budget, programs, needs, touched_by })
}

fn read_program(word: &str, workspace: &Workspace) -> Result<Program> {
    let (package, target) = word.split_once(':').with_context(|| format!("{word} is not package:target"))?;
    let found = workspace.package(package).with_context(|| format!("there is no package {package}"))?;
    let found_target = found.targets.iter().find(|known| known.name == target);
    Ok(program_of(found, found_target.with_context(|| format!("{package} has no tests called {target}"))?))
}

fn program_of(package: &Package, target: &Target) -> Program {
    Program { package: package.name.clone(), target: target.name.clone(), is_unit: target.kind != Kind::Test }
}

/// Packages by their whole names, paths as they are, lists as what is in them.
fn resolve(items: &str, lists: &BTreeMap<&str, Vec<String>>, workspace: &Workspace) -> Result<Vec<String>> {
    let mut resolved = Vec::new();
    for item in items.split_whitespace() {
        if let Some(name) = item.strip_prefix('@') {
            resolved.extend_from_slice(lists.get(name).with_context(|| format!("there is no list {name} above"))?);
        } else if let Some(package) = workspace.package(item) {
            resolved.push(package.name.clone());
        } else {
            resolved.push(item.to_owned());
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::small;

    const TEXT: &str = "all = Cargo.lock\n\
        server = sql # and more\n\
        unit/sql 5 sql:lib -\n\
        unit/repr 5 repr:lib -\n\
        wire 20 test:wire postgres,python @server test/data/\n\
        views 40 test:views - sql\n";

    #[test]
    fn lines_are_suites_and_lists() {
        let map = Map::parse(TEXT, &small()).unwrap();
        assert_eq!(map.all, ["Cargo.lock"]);
        let wire = map.suites.iter().find(|suite| suite.name == "wire").unwrap();
        assert_eq!(wire.programs, [Program { package: "glimpse-test".into(), target: "wire".into(), is_unit: false }]);
        assert_eq!((wire.budget, &wire.needs[..]), (20, &["postgres".to_owned(), "python".to_owned()][..]));
        assert_eq!(wire.touched_by, ["glimpse-sql", "test/data/"]);
        map.check(&small(), &|path| path != "sqll").unwrap();
    }

    #[test]
    fn every_program_is_in_one_suite() {
        let workspace = small();
        let without = Map::parse(&TEXT.replace("views 40 test:views - sql\n", ""), &workspace).unwrap();
        let error = without.check(&workspace, &|_| true).unwrap_err().to_string();
        assert!(error.contains("no suite of test/suites.txt has test:views (test/tests/views.rs)"), "{error}");
        let twice = Map::parse(&format!("{TEXT}again 1 test:views -\n"), &workspace).unwrap();
        assert!(twice.check(&workspace, &|_| true).is_err());
        let nowhere = Map::parse(&TEXT.replace("test/data/", "sqll"), &workspace).unwrap();
        assert!(nowhere.check(&workspace, &|path| path != "sqll").is_err());
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        for line in ["a 1 test:none -", "a 1 nowhere:lib -", "a x test:wire -", "a 1 test:wire", "a 1 test:wire - @x"] {
            assert!(Map::parse(line, &small()).is_err(), "{line}");
        }
    }
}
