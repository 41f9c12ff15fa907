//! `--check-model`: reads the semantic model in a directory and says what is wrong with it, without a server.

use anyhow::{Context, bail};
use semantic::model::{Model, declares};
use semantic::report::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// More text than this in one directory is no model: somebody named the wrong directory.
const BYTES_MAX: u64 = 64 << 20;

/// Writes what there is to say about a model to `out`: notices, problems, and what it has. Whether nothing is wrong.
pub fn check(dir: &Path, out: &mut impl Write) -> anyhow::Result<bool> {
    let files = read(dir)?;
    let mut report = Report::default();
    let model = Model::read(&files, &mut report);
    for notice in &report.notices {
        writeln!(out, "notice: {notice}")?;
    }
    for problem in &report.problems {
        writeln!(out, "error: {problem}")?;
    }
    match &model {
        Some(model) if model.cubes.is_empty() && model.views.is_empty() => {
            bail!("there is no cube and no view in {}", dir.display())
        }
        Some(model) => writeln!(out, "nothing is wrong; cubes: {}, views: {}", model.cubes.len(), model.views.len())?,
        None => writeln!(out, "errors: {}", report.problems.len())?,
    }
    Ok(model.is_some())
}

/// The files of a model: texts by their paths from the directory, with `/` between names. What begins with a point is no file of
/// a model.
pub(crate) fn read(dir: &Path) -> anyhow::Result<BTreeMap<Arc<str>, String>> {
    let (mut files, mut bytes, mut seen) = (BTreeMap::new(), 0, BTreeSet::new());
    seen.insert(dir.canonicalize().with_context(|| format!("cannot read directory {}", dir.display()))?);
    let mut next = vec![(dir.to_owned(), String::new())];
    while let Some((at, prefix)) = next.pop() {
        for entry in std::fs::read_dir(&at).with_context(|| format!("cannot read directory {}", at.display()))? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            let (path, name) = (entry.path(), format!("{prefix}{name}"));
            // Follows links: models are often mounted through one.
            let metadata = std::fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if metadata.is_dir() {
                // A link may lead back.
                if seen.insert(path.canonicalize()?) {
                    next.push((path, format!("{name}/")));
                }
            } else if metadata.is_file() {
                bytes += metadata.len();
                if bytes > BYTES_MAX {
                    bail!("there are more than {} MiB of files in {}: is it a model?", BYTES_MAX >> 20, dir.display());
                }
                let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                match String::from_utf8(content) {
                    Ok(text) => drop(files.insert(Arc::from(name), text)),
                    Err(_) if declares(&name) => bail!("{} is no UTF-8", path.display()),
                    // A picture beside the model, say.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(files)
}
