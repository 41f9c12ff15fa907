//! The repository as a map from path to text.
//!
//! Read once, so that the rules are pure functions and their tests need no disk. Build products, data directories
//! and hidden folders (but for those of ours) are skipped, as are files that are not UTF-8.
//!
//! # Invariants
//! * Paths are relative to the root and separated by `/`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Folders that hold nothing we wrote.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "mzdata", "node_modules", "__pycache__", "venv"];

/// Hidden folders that hold something we wrote.
const HIDDEN_FOLDERS: [&str; 2] = [".ci", ".cargo"];

/// Every text file below the root.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads all that is below `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && !HIDDEN_FOLDERS.contains(&name.as_str());
                if !hidden && !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    self.read_folder(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(std::fs::read(entry.path())?)
            {
                self.0.insert(path, text);
            }
        }
        Ok(())
    }

    /// A tree of given files, for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    /// Every file, as path and text, in the order of paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// The crates of the product: each `src/NAME/Cargo.toml`, as name, path of the manifest and its text.
    pub(crate) fn crates(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.files().filter_map(|(path, text)| {
            let name = path.strip_prefix("src/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some((name, path, text))
        })
    }
}

/// The crate of the product that a path belongs to.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("src/")?.split_once('/').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_the_manifests_right_below_src() {
        let tree = Tree::of(&[
            ("Cargo.toml", ""),
            ("misc/tidy/Cargo.toml", ""),
            ("src/ore/Cargo.toml", "x"),
            ("src/ore/fuzz/Cargo.toml", ""),
        ]);
        assert_eq!(tree.crates().collect::<Vec<_>>(), [("ore", "src/ore/Cargo.toml", "x")]);
        assert_eq!(crate_of("src/compute-client/src/lib.rs"), Some("compute-client"));
        assert_eq!(crate_of("test/src/lib.rs"), None);
    }

    #[test]
    fn reading_skips_what_we_did_not_write() {
        let root = std::env::temp_dir().join(format!("glimpse-tidy-{}", std::process::id()));
        for (path, bytes) in [
            ("src/a.rs", b"//! a".as_slice()),
            (".ci/run", b"#!"),
            (".git/HEAD", b"ref"),
            ("target/debug/b.rs", b"b"),
            ("image.png", &[0x89, 0xff, 0xfe]),
        ] {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().expect("every path has a folder")).expect("a folder can be made");
            std::fs::write(file, bytes).expect("a file can be written");
        }
        let tree = Tree::read(&root).expect("the folder was just made");
        std::fs::remove_dir_all(&root).expect("the folder was just made");
        assert_eq!(tree.files().map(|(path, _)| path).collect::<Vec<_>>(), [".ci/run", "src/a.rs"]);
    }
}
