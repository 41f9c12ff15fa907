//! What is wrong with the files of a model, and what in them has no effect: all of it, each with its place.
//!
//! A reader of a model does not stop at the first mistake. Whoever wrote forty cubes wants to hear of all that is wrong with them,
//! so what is read goes on with whatever can be read, and says what could not in a [`Report`].

use std::fmt;
use std::sync::Arc;

/// A place in a file of a model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was given: relative to the directory of the model.
    pub file: Arc<str>,
    /// From 1; 0 if only the file is known. In a file with Jinja, the line of what Jinja made of it.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
}

/// Something to say about a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    pub place: Place,
    /// One lower-case clause.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// What was found while a model was read.
#[derive(Debug, Default)]
pub struct Report {
    /// Mistakes. A model with one is no model.
    pub problems: Vec<Remark>,
    /// Keys that mean nothing here, each once for each reason however often it is written.
    pub notices: Vec<Remark>,
}

impl Place {
    /// The beginning of a file.
    pub fn file(file: &Arc<str>) -> Place {
        Place { file: Arc::clone(file), line: 0, column: 0 }
    }
}

impl Report {
    pub fn problem(&mut self, place: &Place, message: impl Into<String>) {
        self.problems.push(Remark { place: place.clone(), message: message.into(), hint: None });
    }

    pub fn problem_with_hint(&mut self, place: &Place, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Remark { place: place.clone(), message: message.into(), hint: Some(hint.into()) });
    }

    /// Says once that something has no effect.
    pub fn notice(&mut self, place: &Place, message: impl Into<String>) {
        let message = message.into();
        if self.notices.iter().all(|known| known.message != message) {
            self.notices.push(Remark { place: place.clone(), message, hint: None });
        }
    }

    /// A name that is not known where it stands, with what was probably meant.
    pub fn unknown<'a>(&mut self, place: &Place, what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = match nearest(name, &known) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if known.is_empty() || known.len() > LISTED_MAX => None,
            None => Some(format!("there are: {}", known.join(", "))),
        };
        self.problems.push(Remark { place: place.clone(), message: format!("unknown {what} `{name}`"), hint });
    }
}

/// More names than this are not listed: nobody reads them.
const LISTED_MAX: usize = 24;
const NAME_MAX: usize = 100;

/// The known name that a misspelt one is nearest to, if one is near.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let (name, length) = (name.to_lowercase(), name.chars().count());
    let tolerance = 1 + length / 4;
    let is_as_long = |other: &&&str| other.chars().count().abs_diff(length) <= tolerance;
    // Nobody misspells a name that long, and comparing two takes the product of their lengths.
    let known = known.iter().filter(|_| length <= NAME_MAX).filter(is_as_long);
    let (distance, other) = known.map(|other| (strsim::damerau_levenshtein(&name, other), *other)).min()?;
    (distance <= tolerance).then_some(other)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_told_with_the_one_that_was_meant() {
        let known = ["measures", "dimensions", "joins"];
        assert_eq!(nearest("mesures", &known), Some("measures"));
        assert_eq!(nearest("Dimension", &known), Some("dimensions"));
        assert_eq!(nearest("indexes", &known), None);
    }

    #[test]
    fn a_notice_is_given_once() {
        let (mut report, place) = (Report::default(), Place::file(&Arc::from("a.yml")));
        report.notice(&place, "`refresh_key` has no effect");
        report.notice(&place, "`refresh_key` has no effect");
        assert_eq!(report.notices.len(), 1);
        assert_eq!(report.notices[0].to_string(), "a.yml: `refresh_key` has no effect");
    }
}
