//! The rules about crates: who may depend on whom, and who knows what.
//!
//! 1. Every crate under `src/` has a rank, and a dependency points to a lower rank only.
//! 2. `adapter` and `committer` never name `compute`, in their manifests or in their code: only `environmentd` joins the two.
//! 3. Differential operators appear in `arrangement` and `compute` alone.
//! 4. The pure crates (`repr`, `pgrepr`, `arrangement`, `engine`, `sql` and its parts) have no tokio; [`crate::sources`] looks for
//!    I/O and clocks.
//! 5. Only the doors know wires: no other crate uses a wire-protocol library or opens a socket.
//! 6. Versions come from the workspace's table, lints from the workspace, and the map mentions every crate.
//! 7. What people run has every crate at release speed and without assertions: each is in `.cargo/optimized.toml`.
//!
//! Dependencies of tests are let off rules 1 and 4, for a test may well reach up; never rule 2.

use crate::Finding;
use crate::manifest::{Kind, dependencies, takes_workspace_lints};
use crate::tree::Tree;

/// The map that has to mention every crate.
const MAP_PATH: &str = "doc/architecture.md";

/// Rank by crate, as in the map. A new crate is a line here and a paragraph there.
const RANKS: [(&str, u8); 23] = [
    ("ore", 1),
    ("repr", 2),
    ("pgrepr", 3),
    ("arrangement", 3),
    ("columns", 3),
    ("persist", 4),
    ("engine", 4),
    ("timestamp-oracle", 5),
    ("compute-client", 5),
    ("sql-syntax", 5),
    ("semantic", 6),
    ("sql-functions", 6),
    ("compute", 7),
    ("sql", 7),
    ("catalog", 8),
    ("committer", 9),
    ("adapter", 10),
    ("door", 11),
    ("flight", 12),
    ("pgwire", 12),
    ("trial", 12),
    ("web", 12),
    ("environmentd", 13),
];

/// Crates that compute and nothing else: no runtime, no I/O, no clock.
pub(crate) const PURE_CRATES: [&str; 9] =
    ["repr", "pgrepr", "arrangement", "columns", "engine", "sql-syntax", "semantic", "sql-functions", "sql"];

/// Libraries and crates that only some crates may use, with the reason.
const RESERVED: [(&str, &[&str], &str); 4] = [
    (
        "differential-dataflow",
        &["arrangement", "compute"],
        "differential operators appear in arrangement and compute alone",
    ),
    ("committer", &["adapter"], "only the adapter asks the committer"),
    ("postgres-protocol", &["pgwire"], "only pgwire knows wire bytes"),
    ("socket2", &["door"], "only door tunes sockets"),
];

/// What a door may use of ours: the statement API, what its values are, how Cube's clients ask, and what doors have in common.
const DOOR_USES: [&str; 6] = ["adapter", "door", "ore", "pgrepr", "repr", "semantic"];

/// The doors.
const DOORS: [&str; 4] = ["flight", "pgwire", "trial", "web"];

/// Where the clients are that tests run.
const CLIENTS: &str = "test/clients/";

/// What holds features of crates that nothing of ours names, so that the table does not either.
const UNIFY: &str = "misc/unify/Cargo.toml";

/// How the server that people run is compiled, crate by crate.
const OPTIMIZED: &str = ".cargo/optimized.toml";

/// Runs every rule about crates.
pub(crate) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let map = tree.text(MAP_PATH);
    if map.is_none() {
        findings.push(Finding::new(MAP_PATH, 0, "the map of the crates is missing"));
    }
    for (name, path, manifest) in tree.crates() {
        check_manifest(name, path, manifest, findings);
        if map.is_some_and(|map| !mentions(map, name)) {
            findings.push(Finding::new(path, 0, format!("{MAP_PATH} does not mention `{name}`")));
        }
        if !tree.text(OPTIMIZED).is_some_and(|profile| is_optimized(profile, name)) {
            findings.push(Finding::new(OPTIMIZED, 0, format!("glimpse-{name} is not at release speed for people")));
        }
    }
    // A client under test is a workspace of its own, with what it needs and we do not.
    let is_ours = |path: &str| path.ends_with("/Cargo.toml") && !path.starts_with(CLIENTS);
    for (path, manifest) in tree.files().filter(|(path, _)| is_ours(path)) {
        if !takes_workspace_lints(manifest) {
            findings.push(Finding::new(
                path,
                0,
                "lints do not come from the workspace: say `[lints] workspace = true`",
            ));
        }
        if path == UNIFY {
            continue;
        }
        for dependency in dependencies(manifest).iter().filter(|dependency| !dependency.from_workspace) {
            let message =
                format!("{} is not taken from the workspace's table: say `workspace = true`", dependency.name);
            findings.push(Finding::new(path, dependency.line, message));
        }
    }
}

fn check_manifest(name: &str, path: &str, manifest: &str, findings: &mut Vec<Finding>) {
    let Some(rank) = rank(name) else {
        findings.push(Finding::new(
            path,
            0,
            format!("`{name}` has no rank: give it one in misc/tidy and in {MAP_PATH}"),
        ));
        return;
    };
    for dependency in dependencies(manifest) {
        let other = dependency.name.as_str();
        let mut found = |message: String| findings.push(Finding::new(path, dependency.line, message));
        if matches!(name, "adapter" | "committer") && other == "compute" {
            found(format!("{name} never names compute: only environmentd joins the two"));
        } else if let Some(other_rank) = self::rank(other)
            && dependency.kind == Kind::Product
            && other_rank >= rank
        {
            found(format!("{name} (rank {rank}) may not use {other} (rank {other_rank}): dependencies point down"));
        }
        if is_door(name) && dependency.kind == Kind::Product && is_ours(other) && !DOOR_USES.contains(&other) {
            found(format!("{name} may not use {other}: a door knows the statement API and door, and no more"));
        }
        if PURE_CRATES.contains(&name) && dependency.kind == Kind::Product && is_async(other) {
            found(format!("{name} has no tokio, no I/O and no clock: {other} belongs higher up"));
        }
        for (library, users, reason) in RESERVED {
            if other == library && !users.contains(&name) {
                found(format!("{name} may not use {other}: {reason}"));
            }
        }
    }
}

/// Whether the name is that of a door.
pub(crate) fn is_door(name: &str) -> bool {
    DOORS.contains(&name)
}

/// Whether the name is that of a crate of the product.
pub(crate) fn is_ours(name: &str) -> bool {
    rank(name).is_some()
}

fn rank(name: &str) -> Option<u8> {
    RANKS.iter().find(|(known, _)| *known == name).map(|(_, rank)| *rank)
}

fn is_async(library: &str) -> bool {
    library == "tokio" || library.starts_with("tokio-") || library == "async-std" || library == "mio"
}

/// Whether the map names the crate in code font or as a folder.
fn mentions(map: &str, name: &str) -> bool {
    map.contains(&format!("`{name}`")) || map.contains(&format!("`src/{name}`"))
}

/// Whether the profile of what people run says how to compile the crate.
fn is_optimized(profile: &str, name: &str) -> bool {
    let key = format!("glimpse-{name} = ");
    let said = profile.lines().find_map(|line| line.strip_prefix(&key));
    said.is_some_and(|said| said.contains("opt-level = 3") && said.contains("debug-assertions = false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEED: &str = "{ opt-level = 3, debug-assertions = false, overflow-checks = false }";

    const MAP: (&str, &str) = (MAP_PATH, "`ore` `repr` `pgrepr` `sql` `compute` `adapter` `src/pgwire` `arrangement`");

    /// What the rules say about one crate with these tables.
    fn messages(name: &str, tables: &str) -> Vec<String> {
        let manifest = format!("[lints]\nworkspace = true\n{tables}");
        let path = format!("src/{name}/Cargo.toml");
        let profile = format!("[profile.dev.package]\nglimpse-{name} = {SPEED}\n");
        let mut findings = Vec::new();
        check(&Tree::of(&[MAP, (&path, &manifest), (OPTIMIZED, &profile)]), &mut findings);
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn dependencies_point_down() {
        assert_eq!(messages("adapter", "[dependencies]\nsql.workspace = true\ntokio.workspace = true\n"), [""; 0]);
        let up = messages("sql", "[dependencies]\nadapter.workspace = true\n");
        assert_eq!(up, ["sql (rank 7) may not use adapter (rank 10): dependencies point down"]);
        let beside = messages("pgrepr", "[dependencies]\narrangement.workspace = true\n");
        assert_eq!(beside, ["pgrepr (rank 3) may not use arrangement (rank 3): dependencies point down"]);
        let underscored = messages("repr", "[dependencies]\ncompute_client.workspace = true\n");
        assert_eq!(underscored.len(), 1, "{underscored:?}");
    }

    #[test]
    fn tests_may_reach_up_but_adapter_never_names_compute() {
        assert_eq!(messages("repr", "[dev-dependencies]\npgrepr.workspace = true\n"), [""; 0]);
        for table in ["dependencies", "dev-dependencies"] {
            let found = messages("adapter", &format!("[{table}]\ncompute.workspace = true\n"));
            assert_eq!(found, ["adapter never names compute: only environmentd joins the two"]);
        }
    }

    #[test]
    fn a_door_knows_the_statement_api_alone() {
        let mentioned = |found: Vec<String>| found.into_iter().filter(|m| !m.contains("mention")).collect::<Vec<_>>();
        let found = messages("trial", "[dependencies]\nadapter.workspace = true\nsql.workspace = true\n");
        assert_eq!(mentioned(found), ["trial may not use sql: a door knows the statement API and door, and no more"]);
        assert_eq!(mentioned(messages("trial", "[dev-dependencies]\ncompute.workspace = true\n")), [""; 0]);
    }

    #[test]
    fn some_libraries_are_reserved() {
        assert_eq!(messages("compute", "[dependencies]\ndifferential-dataflow.workspace = true\n"), [""; 0]);
        let found = messages("adapter", "[dependencies]\ndifferential-dataflow.workspace = true\n");
        assert!(found[0].starts_with("adapter may not use differential-dataflow"), "{found:?}");
        let found = messages("adapter", "[dependencies]\npostgres-protocol.workspace = true\n");
        assert_eq!(found, ["adapter may not use postgres-protocol: only pgwire knows wire bytes"]);
    }

    #[test]
    fn pure_crates_have_no_runtime() {
        for library in ["tokio", "tokio-util"] {
            let found = messages("sql", &format!("[dependencies]\n{library}.workspace = true\n"));
            assert_eq!(found, [format!("sql has no tokio, no I/O and no clock: {library} belongs higher up")]);
            assert_eq!(messages("sql", &format!("[dev-dependencies]\n{library}.workspace = true\n")), [""; 0]);
        }
    }

    #[test]
    fn a_crate_without_rank_or_mention_is_found() {
        assert_eq!(
            messages("novel", "")[0],
            "`novel` has no rank: give it one in misc/tidy and in doc/architecture.md"
        );
        assert_eq!(messages("persist", ""), ["doc/architecture.md does not mention `persist`"]);
    }

    #[test]
    fn what_people_run_is_compiled_for_speed() {
        let ore = ("src/ore/Cargo.toml", "[lints]\nworkspace = true\n");
        for profile in ["", "glimpse-ores = {}", &format!("glimpse-ore = {}", SPEED.replace("false", "true"))] {
            let mut findings = Vec::new();
            check(&Tree::of(&[MAP, ore, (OPTIMIZED, profile)]), &mut findings);
            assert_eq!(findings[0].message, "glimpse-ore is not at release speed for people", "{profile}");
        }
    }

    #[test]
    fn only_unify_names_versions_of_its_own() {
        let manifest = "[lints]\nworkspace = true\n[dependencies]\nrand = \"0.9\"\n";
        let mut findings = Vec::new();
        check(&Tree::of(&[MAP, (UNIFY, manifest)]), &mut findings);
        assert_eq!(findings, []);
    }

    #[test]
    fn versions_and_lints_come_from_the_workspace() {
        let found = messages("ore", "[dependencies]\nrand = \"0.9\"\n");
        assert_eq!(found, ["rand is not taken from the workspace's table: say `workspace = true`"]);
        let mut findings = Vec::new();
        check(&Tree::of(&[MAP, ("test/Cargo.toml", "[package]\n")]), &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
