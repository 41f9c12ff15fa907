//! Text files of inputs with the outputs that PostgreSQL gave.
//!
//! A block is input lines, `----`, output lines, and ends with an empty line. Lines that start with `#` are comments.
//! Where Glimpse differs on purpose, the block goes on with `---- glimpse: reason` and Glimpse's output.
//!
//! ```text
//! # a comment
//! input
//! ----
//! output
//! ---- glimpse: why
//! other output
//! ```

use std::path::Path;

use anyhow::{Context, bail};

const OUTPUT: &str = "----";
const GLIMPSE: &str = "---- glimpse: ";

/// One part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Comment lines.
    Comment(Vec<String>),
    /// An input and what it gives.
    Block(Block),
}

/// An input and what it gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// What to do.
    pub input: Vec<String>,
    /// What PostgreSQL said.
    pub output: Vec<String>,
    /// Glimpse's output when it differs, with the reason.
    pub glimpse: Option<(String, Vec<String>)>,
}

/// Parses a file.
pub fn parse(text: &str) -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for paragraph in text.split("\n\n") {
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.is_empty()).collect();
        let comments = lines.iter().take_while(|line| line.starts_with('#')).count();
        if comments > 0 {
            items.push(Item::Comment(lines[..comments].iter().map(|&line| line.to_owned()).collect()));
        }
        if comments == lines.len() {
            continue;
        }
        let mut block = Block::default();
        let mut outputs = false;
        for line in &lines[comments..] {
            if *line == OUTPUT {
                outputs = true;
            } else if let Some(reason) = line.strip_prefix(GLIMPSE) {
                block.glimpse = Some((reason.to_owned(), Vec::new()));
            } else if let Some((_, output)) = &mut block.glimpse {
                output.push((*line).to_owned());
            } else if outputs {
                block.output.push((*line).to_owned());
            } else {
                block.input.push((*line).to_owned());
            }
        }
        if block.input.is_empty() {
            bail!("a block without input: {paragraph}");
        }
        items.push(Item::Block(block));
    }
    Ok(items)
}

/// Writes a file.
pub fn unparse(items: &[Item]) -> String {
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        match item {
            Item::Comment(lines) => {
                lines.iter().for_each(|line| push(&mut out, line));
                if !matches!(items.get(index + 1), Some(Item::Block(_))) {
                    out.push('\n');
                }
            }
            Item::Block(block) => {
                block.input.iter().for_each(|line| push(&mut out, line));
                push(&mut out, OUTPUT);
                block.output.iter().for_each(|line| push(&mut out, line));
                if let Some((reason, lines)) = &block.glimpse {
                    push(&mut out, &format!("{GLIMPSE}{reason}"));
                    lines.iter().for_each(|line| push(&mut out, line));
                }
                out.push('\n');
            }
        }
    }
    out
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Runs every block of a file; returns how many agreed and a text per failure.
pub fn check(
    path: &Path,
    glimpse: bool,
    mut run: impl FnMut(&[String]) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<(usize, Vec<String>)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let (mut passed, mut failed) = (0, Vec::new());
    for item in parse(&text)? {
        let Item::Block(block) = item else { continue };
        let expected = match &block.glimpse {
            Some((_, output)) if glimpse => output,
            _ => &block.output,
        };
        let actual = run(&block.input).unwrap_or_else(|error| vec![format!("harness: {error:#}")]);
        if &actual == expected {
            passed += 1;
        } else {
            let name = path.file_name().unwrap_or_default().display();
            let (input, expected, actual) = (block.input.join("\n"), expected.join("\n  "), actual.join("\n  "));
            failed.push(format!("{name}\n{input}\nexpected:\n  {expected}\nactual:\n  {actual}"));
        }
    }
    Ok((passed, failed))
}

/// Writes the outputs of a file anew.
pub fn record(path: &Path, mut run: impl FnMut(&[String]) -> anyhow::Result<Vec<String>>) -> anyhow::Result<()> {
    let mut items = parse(&std::fs::read_to_string(path)?)?;
    for item in &mut items {
        if let Item::Block(block) = item {
            block.output = run(&block.input).with_context(|| block.input.join("\n"))?;
        }
    }
    Ok(std::fs::write(path, unparse(&items))?)
}

#[cfg(test)]
mod tests {
    use super::{parse, unparse};

    #[test]
    fn a_file_survives_parsing() {
        let text = "# title\n\n# about a\na\n----\n1\n---- glimpse: why\n2\n\nb\n----\n\n";
        let items = parse(text).expect("the text is well formed");
        assert_eq!(items.len(), 4);
        let text = unparse(&items);
        assert_eq!(parse(&text).expect("what we write is well formed"), items);
    }
}
