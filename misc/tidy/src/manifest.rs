//! As much of a `Cargo.toml` as the rules ask for: which dependencies, in which table, and whether through the workspace.
//!
//! Reads the TOML that people write in manifests: tables, `key = value`, `key.workspace = true`,
//! `[dependencies.key]`, values over several lines. Strings with brackets in them would confuse it; no manifest has any.

/// One dependency of one crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// As code names it (the key), with dashes.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Counted from one.
    pub(crate) line: usize,
    /// Whether version and features come from the workspace's table.
    pub(crate) from_workspace: bool,
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Linked into the product or run to build it.
    Product,
    /// `[dev-dependencies]`: tests, examples and benches.
    Tests,
}

/// What a manifest says, in the order in which it says it.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // The kind of the table we are in, and the index of the dependency if the table is about a single one.
    let mut table: Option<(Kind, Option<usize>)> = None;
    let mut depth = 0_usize;
    for (index, raw) in manifest.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or_default().trim();
        if depth == 0 && line.starts_with('[') {
            table = open_table(line.trim_matches(['[', ']']), index + 1, &mut found);
        } else if depth == 0
            && let (Some((kind, single)), Some((key, value))) = (table, line.split_once('='))
        {
            let (key, value) = (key.trim(), value.trim());
            let from_workspace =
                (key.ends_with("workspace") && value == "true") || value.replace(' ', "").contains("workspace=true");
            match single {
                Some(position) => found[position].from_workspace |= from_workspace,
                None => found.push(Dependency {
                    name: normalised(key.split('.').next().unwrap_or(key)),
                    kind,
                    line: index + 1,
                    from_workspace,
                }),
            }
        }
        depth = (depth + line.matches(['{', '[']).count()).saturating_sub(line.matches(['}', ']']).count());
    }
    found
}

/// Whether the crate takes the workspace's lints.
pub(crate) fn takes_workspace_lints(manifest: &str) -> bool {
    let mut in_lints = false;
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            in_lints = line == "[lints]";
        }
        line == "lints.workspace = true" || (in_lints && line == "workspace = true")
    })
}

/// Enters a table; one of the form `[dependencies.name]` is a dependency of its own.
fn open_table(header: &str, line: usize, found: &mut Vec<Dependency>) -> Option<(Kind, Option<usize>)> {
    // `[target.'cfg(unix)'.dependencies]` differs only in what stands before.
    let parts: Vec<&str> = header.split('.').collect();
    let position = parts.iter().position(|part| part.ends_with("dependencies"))?;
    if parts[0] == "workspace" {
        return None;
    }
    let kind = if parts[position] == "dev-dependencies" { Kind::Tests } else { Kind::Product };
    let Some(name) = parts.get(position + 1) else { return Some((kind, None)) };
    found.push(Dependency { name: normalised(name), kind, line, from_workspace: false });
    Some((kind, Some(found.len() - 1)))
}

fn normalised(key: &str) -> String {
    key.trim_matches('"').replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str) -> Vec<(String, Kind, usize, bool)> {
        dependencies(manifest).into_iter().map(|d| (d.name, d.kind, d.line, d.from_workspace)).collect()
    }

    #[test]
    fn every_way_to_write_a_dependency() {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nrepr.workspace = true # why\n\
            bytes = { workspace = true, features = [\n  \"a = b\",\n] }\nrand = \"0.9\"\n\
            [dependencies.tokio]\nworkspace = true\n[target.'cfg(unix)'.dependencies]\nlibc.workspace = true\n\
            [dev-dependencies]\ntest_util.workspace = true\n[lints]\nworkspace = true\n";
        let expected = [
            ("repr", Kind::Product, 4, true),
            ("bytes", Kind::Product, 5, true),
            ("rand", Kind::Product, 8, false),
            ("tokio", Kind::Product, 9, true),
            ("libc", Kind::Product, 12, true),
            ("test-util", Kind::Tests, 14, true),
        ];
        assert_eq!(names(manifest), expected.map(|(name, kind, line, ws)| (name.to_owned(), kind, line, ws)));
        assert!(takes_workspace_lints(manifest));
    }

    #[test]
    fn what_is_not_a_dependency() {
        assert_eq!(names("[workspace.dependencies]\nrepr = { path = \"src/repr\" }\n[features]\na = []\n"), []);
        assert!(!takes_workspace_lints("[package]\nworkspace = true\n[lints.rust]\nunsafe_code = \"deny\"\n"));
    }
}
