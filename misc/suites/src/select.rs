//! Which suites to run, and why.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::map::{Map, Program, Suite};
use crate::report;
use crate::workspace::{Kind, Workspace, is_within, short};

/// A suite, and what it was chosen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen<'a> {
    pub(crate) suite: &'a Suite,
    /// Empty if it was asked for.
    pub(crate) why: String,
}

pub(crate) fn all(map: &Map) -> Vec<Chosen<'_>> {
    map.suites.iter().map(|suite| Chosen { suite, why: String::new() }).collect()
}

/// Suites by their names; `unit` is everything called `unit/…`.
pub(crate) fn named<'a>(map: &'a Map, names: &[String]) -> Result<Vec<Chosen<'a>>> {
    for name in names {
        if !map.suites.iter().any(|suite| is_within(&suite.name, name)) {
            let known: Vec<&str> = map.suites.iter().map(|suite| suite.name.as_str()).collect();
            bail!("no suite is called {name}; there are {}", known.join(", "));
        }
    }
    let is_named = |suite: &Suite| names.iter().any(|name| is_within(&suite.name, name));
    Ok(all(map).into_iter().filter(|chosen| is_named(chosen.suite)).collect())
}

/// The suites that what has changed since a revision can touch, committed or not.
pub(crate) fn changed<'a>(
    map: &'a Map,
    workspace: &Workspace,
    root: &Path,
    since: Option<&str>,
) -> Result<Vec<Chosen<'a>>> {
    let since = match since {
        // One commit: of a range git would leave out what is not committed.
        Some(since) => git(root, &["rev-parse", "--verify", "--quiet", &format!("{since}^{{commit}}")])
            .with_context(|| format!("{since} is no commit"))?,
        None => last_landed(root)?,
    };
    let since = since.first().context("git names a commit")?;
    let mut paths = git(root, &["diff", "--name-only", "--no-renames", since, "--"])?;
    paths.extend(git(root, &["ls-files", "--others", "--exclude-standard"])?);
    report::changes(since, paths.len());
    Ok(touched(map, workspace, &paths))
}

/// Where this branch left `origin/main`; where there is none, `main`, unless that is this branch.
fn last_landed(root: &Path) -> Result<Vec<String>> {
    let is_main = git(root, &["branch", "--show-current"])? == ["main"];
    let landed = ["origin/main", "main"].into_iter().filter(|landed| *landed != "main" || !is_main);
    let mut bases = landed.filter_map(|landed| git(root, &["merge-base", landed, "HEAD"]).ok());
    bases.next().context("there is no origin/main to have left: say --changed REF")
}

fn git(root: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let output = Command::new("git").current_dir(root).args(arguments).output().context("run git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn touched<'a>(map: &'a Map, workspace: &Workspace, paths: &[String]) -> Vec<Chosen<'a>> {
    let reasons: Vec<Vec<Option<String>>> = paths.iter().map(|path| reasons(map, workspace, path)).collect();
    let suites = map.suites.iter().enumerate();
    let why = |at: usize| reasons.iter().find_map(|of_path| of_path[at].clone());
    suites.filter_map(|(at, suite)| Some(Chosen { suite, why: why(at)? })).collect()
}

/// Why a file touches each suite, in the order of the map; `None` if it does not.
fn reasons(map: &Map, workspace: &Workspace, path: &str) -> Vec<Option<String>> {
    let listed = |list: &[String]| list.iter().find(|item| is_within(path, item)).cloned();
    let each = |why: &dyn Fn(&Suite) -> Option<String>| map.suites.iter().map(why).collect::<Vec<_>>();
    if listed(&map.none).is_some() {
        return each(&|_| None);
    }
    if listed(&map.all).is_some() {
        return each(&|_| Some(format!("{path} touches every suite")));
    }
    // What the map says of a file comes before what its package says.
    let by_path = each(&|suite| listed(&suite.touched_by).map(|_| path.to_owned()));
    if by_path.iter().any(Option::is_some) {
        return by_path;
    }
    let Some(owner) = workspace.owner(path) else { return each(&|_| Some(format!("{path} is not in the map"))) };
    let test = owner.targets.iter().find(|target| target.kind == Kind::Test && target.source == path);
    each(&|suite| {
        let is_own =
            |program: &&Program| program.package == owner.name && test.is_none_or(|test| test.name == program.target);
        if suite.programs.iter().any(|program| is_own(&program)) {
            return Some(path.to_owned());
        }
        if test.is_some() {
            return None;
        }
        if suite.touched_by.contains(&owner.name) {
            return Some(format!("its server has {} ({path})", short(&owner.name)));
        }
        let stands_on = |program: &&Program| workspace.stands_on(&program.package).contains(owner.name.as_str());
        let program = suite.programs.iter().find(stands_on)?;
        Some(format!("{} stands on {} ({path})", short(&program.package), short(&owner.name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::small;

    const TEXT: &str = "all = Cargo.lock\n\
        none = doc/ README.md\n\
        unit/sql 5 sql:lib -\n\
        unit/repr 5 repr:lib -\n\
        wire 20 test:wire - sql\n\
        views 40 test:views - test/views/\n";

    fn chosen(paths: &[&str]) -> Vec<(String, String)> {
        let (workspace, paths) = (small(), paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>());
        let map = Map::parse(TEXT, &workspace).unwrap();
        touched(&map, &workspace, &paths).into_iter().map(|one| (one.suite.name.clone(), one.why)).collect()
    }

    fn names(paths: &[&str]) -> Vec<String> {
        chosen(paths).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn by_crate() {
        assert_eq!(names(&["src/sql/src/plan.rs"]), ["unit/sql", "wire"]);
        assert_eq!(names(&["src/repr/src/row.rs"]), ["unit/sql", "unit/repr"]);
        let why = chosen(&["src/repr/src/row.rs"]);
        assert_eq!(why[0].1, "sql stands on repr (src/repr/src/row.rs)");
    }

    #[test]
    fn by_file() {
        assert_eq!(names(&["test/tests/wire.rs"]), ["wire"]);
        assert_eq!(names(&["test/views/corpus.sql"]), ["views"]);
        assert_eq!(names(&["test/src/lib.rs"]), ["wire", "views"]);
        assert_eq!(names(&["test/tests/wire.rs", "src/repr/Cargo.toml"]), ["unit/sql", "unit/repr", "wire"]);
    }

    #[test]
    fn everything_and_nothing() {
        assert_eq!(names(&["Cargo.lock"]).len(), 4);
        assert_eq!(names(&["doc/x.md", "README.md"]).len(), 0);
        assert_eq!(chosen(&["bin/new"])[3].1, "bin/new is not in the map");
    }

    #[test]
    fn by_name() {
        let map = Map::parse(TEXT, &small()).unwrap();
        let named = |name: &str| named(&map, &[name.to_owned()]).map(|chosen| chosen.len());
        assert_eq!((named("unit").unwrap(), named("unit/sql").unwrap()), (2, 1));
        assert!(named("unit/").is_ok() && named("wir").is_err());
    }
}
