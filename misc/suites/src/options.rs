//! What the command line of `bin/test` asks for. bin/test has the texts of `--help`.

use anyhow::{Result, bail};

/// Which suites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Every one.
    All,
    /// Those of these names, or below them.
    Only(Vec<String>),
    /// Those that a change since this revision can touch.
    Changed(Option<String>),
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) choice: Choice,
    /// Only say what would run.
    pub(crate) list: bool,
    /// Large numbers of the same code.
    pub(crate) long: bool,
    /// Begin with the shortest suite, and begin none after one has failed.
    pub(crate) fail_fast: bool,
    /// Print where the time went.
    pub(crate) timings: bool,
    /// Install what is missing.
    pub(crate) install: bool,
    /// Suites at once; by default one more than there are processors, because most of them wait.
    pub(crate) jobs: usize,
    /// Only tests whose names contain one of these.
    pub(crate) filters: Vec<String>,
}

impl Options {
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Options> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options = Options {
            choice: Choice::All,
            list: false,
            long: false,
            fail_fast: false,
            timings: false,
            install: true,
            jobs: processors + 1,
            filters: Vec::new(),
        };
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" | "--changed" if options.choice != Choice::All => {
                    bail!("--only and --changed are said once, and not both")
                }
                "--only" => {
                    let Some(names) = arguments.next() else { bail!("--only needs the name of a suite") };
                    options.choice = Choice::Only(names.split(',').map(str::to_owned).collect());
                }
                "--changed" => {
                    options.choice = Choice::Changed(arguments.next_if(|argument| !argument.starts_with('-')));
                }
                "--jobs" => match arguments.next().as_deref().map(str::parse) {
                    Some(Ok(jobs)) if jobs > 0 => options.jobs = jobs,
                    _ => bail!("--jobs needs a number"),
                },
                "--list" => options.list = true,
                "--long" => options.long = true,
                "--fail-fast" => options.fail_fast = true,
                "--timings" => options.timings = true,
                "--no-install" => options.install = false,
                "--" => options.filters = arguments.by_ref().collect(),
                _ => bail!("unknown option {argument} (see --help)"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn choices() {
        let choice = |line: &str| parse(line).unwrap().choice;
        assert_eq!(choice(""), Choice::All);
        assert_eq!(choice("--only wire,unit"), Choice::Only(vec!["wire".to_owned(), "unit".to_owned()]));
        assert_eq!(choice("--changed"), Choice::Changed(None));
        assert_eq!(choice("--changed --timings"), Choice::Changed(None));
        assert_eq!(choice("--changed HEAD~1"), Choice::Changed(Some("HEAD~1".to_owned())));
    }

    #[test]
    fn the_rest_filters_tests() {
        let options = parse("--jobs 4 --only wire -- a_test --only").unwrap();
        assert_eq!((options.jobs, options.filters), (4, vec!["a_test".to_owned(), "--only".to_owned()]));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "--olny wire",
            "--only",
            "--only a --only b",
            "--only a --changed",
            "--jobs",
            "--jobs 0",
            "--jobs two",
            "wire",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
