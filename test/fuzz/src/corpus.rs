//! What fuzzing by coverage begins with: a target's seeds as files, and its words as a dictionary.
//!
//! libFuzzer reads both after it has called [`prepare`]; what it finds besides, it keeps in the folder of the seeds, and a later
//! run goes on from there.

use crate::Target;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Names the folder to write to: seeds go into its `corpus`, words into its `words`.
pub const VARIABLE: &str = "GLIMPSE_FUZZ";

/// Writes what the target begins with, if the environment says where to. Panics if that cannot be written.
///
/// libFuzzer's hook ends the program at any panic, also of a library of others whose panics ours catches (`door::messages::guarded`).
/// From here on a panic is told, and ends it where nobody catches it.
pub fn prepare(target: &Target) {
    std::panic::set_hook(Box::new(|panic| {
        // Nobody to tell it to is no failure either.
        let _nobody_reads = writeln!(io::stderr(), "{panic}");
    }));
    if let Some(folder) = std::env::var_os(VARIABLE) {
        let folder = Path::new(&folder);
        write(target, folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }
}

fn write(target: &Target, folder: &Path) -> io::Result<()> {
    let corpus = folder.join("corpus");
    fs::create_dir_all(&corpus)?;
    for (number, seed) in (target.seeds)().into_iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed)?;
    }
    let words: String = target.words.iter().map(|word| quoted(word.as_bytes())).collect();
    // No dictionary is empty.
    fs::write(folder.join("words"), format!("# {}\n{words}", target.name))
}

/// A line of a dictionary: a word in quotes, with everything unusual as `\xNN`.
fn quoted(word: &[u8]) -> String {
    let escaped = |&byte: &u8| match byte {
        b'"' | b'\\' | 0..0x20 | 0x7f.. => format!("\\x{byte:02x}"),
        _ => char::from(byte).to_string(),
    };
    format!("\"{}\"\n", word.iter().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCRAM;

    #[test]
    fn words_are_quoted_as_libfuzzer_reads_them() {
        assert_eq!(quoted(b"a\"\\\0\xff "), "\"a\\x22\\x5c\\x00\\xff \"\n");
    }

    #[test]
    fn every_seed_is_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        write(&SCRAM, folder.path()).expect("files");
        let seeds: Vec<_> = fs::read_dir(folder.path().join("corpus")).expect("a folder").collect();
        assert_eq!(seeds.len(), (SCRAM.seeds)().len());
        let words = fs::read_to_string(folder.path().join("words")).expect("a file");
        assert_eq!(words.lines().count(), 1 + SCRAM.words.len());
    }
}
