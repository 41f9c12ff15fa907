//! Views that are compared: what the index on a view gives, what its query gives ad hoc, and what PostgreSQL says.
//!
//! A [`Comparison`] is a Glimpse server and, where there is one, a PostgreSQL with the same tables. Every change goes to
//! both. Answers are sets of rows with their copies. The index and the ad hoc engine must agree to the last character;
//! PostgreSQL computes averages, quotients and sums of floats to another number of digits, so numbers with a point agree
//! with its numbers when they differ by less than [`TOLERANCE`]; and Glimpse has no negative zero.

use std::fmt::Write;

use crate::postgres_server::Postgres;
use crate::server::Server;
use crate::wire::Wire;
use crate::wire::message::Message;

/// By how much of its size a number with a point may differ from PostgreSQL's.
const TOLERANCE: f64 = 1e-9;

/// Rows as text, `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// A view to compare.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Its query.
    pub query: String,
    /// What PostgreSQL is asked: another query of the same meaning, or nothing, where it cannot be asked this one.
    pub referee: Option<String>,
}

/// The views of a corpus: paragraphs, each with a line `-- name: …` and a query that ends with a semicolon. Lines
/// `-- postgres: …` are what PostgreSQL is asked in its place, `-- postgres: none` if it has no words for it.
pub fn corpus(text: &str, only: Option<&str>) -> Vec<View> {
    let mut views = Vec::new();
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        let name = paragraph.lines().find_map(|line| line.strip_prefix("-- name: "));
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.starts_with("--")).collect();
        let (Some(name), false) = (name, lines.is_empty()) else { continue };
        let query = lines.join("\n").trim_end_matches(';').to_owned();
        let other: Vec<&str> = paragraph.lines().filter_map(|line| line.strip_prefix("-- postgres: ")).collect();
        let referee = match other.join(" ") {
            other if other.is_empty() => Some(query.clone()),
            other => Some(other).filter(|other| other != "none"),
        };
        if only.is_none_or(|only| only == name) {
            views.push(View { name: name.trim().to_owned(), query, referee });
        }
    }
    assert!(!views.is_empty(), "no view is called {only:?}");
    views
}

/// The statements of a script without quoted semicolons.
pub fn script(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|sql| !sql.is_empty())
}

/// What a query gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Its rows, sorted.
    Rows(Rows),
    /// The SQLSTATE and the message of its error.
    Error(String, String),
}

impl Answer {
    /// Runs a query.
    pub fn of(wire: &mut Wire, sql: &str) -> anyhow::Result<Answer> {
        let messages = wire.query(sql)?;
        if let Some(error) = messages.iter().find_map(Message::error) {
            return Ok(Answer::Error(error.code, error.message));
        }
        let mut rows: Rows = messages.iter().filter(|message| message.tag == b'D').map(Message::row_text).collect();
        // Which of a float's zeros stands for both is nobody's affair.
        rows.iter_mut().flatten().flatten().filter(|value| *value == "-0").for_each(|zero| "0".clone_into(zero));
        rows.sort();
        Ok(Answer::Rows(rows))
    }

    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        match self {
            Answer::Rows(rows) => rows.len(),
            Answer::Error(..) => 0,
        }
    }

    /// What both say, if they differ. Errors are compared by their SQLSTATE, with PostgreSQL's by the class of it.
    pub fn difference(&self, other: &Answer, what: &str, agreement: Agreement) -> Option<String> {
        let (left, right) = match (self, other) {
            (Answer::Rows(left), Answer::Rows(right)) => (left, right),
            (Answer::Error(left, _), Answer::Error(right, _)) if agreement == Agreement::Exact && left == right => {
                return None;
            }
            (Answer::Error(left, _), Answer::Error(right, _))
                if agreement == Agreement::Close && left.get(..2) == right.get(..2) =>
            {
                return None;
            }
            _ => return Some(format!("{what}: {} and {}", self.summary(), other.summary())),
        };
        if left == right {
            return None;
        }
        let (left_only, right_only) = unmatched(left, right, agreement);
        if left_only.is_empty() && right_only.is_empty() {
            return None;
        }
        let mut text = format!("{what}: {} and {} rows", left.len(), right.len());
        for row in left_only.iter().take(5) {
            let _ = write!(text, "\n  only the first:  {row:?}");
        }
        for row in right_only.iter().take(5) {
            let _ = write!(text, "\n  only the second: {row:?}");
        }
        Some(text)
    }

    fn summary(&self) -> String {
        match self {
            Answer::Rows(rows) => format!("{} rows", rows.len()),
            Answer::Error(code, message) => format!("error {code} ({message})"),
        }
    }
}

/// When two values are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// Their texts are.
    Exact,
    /// Their texts are, or both are numbers, one of them with a point, that differ by less than the tolerance.
    Close,
}

/// The rows of each side without partner on the other.
fn unmatched<'a>(
    left: &'a Rows,
    right: &'a Rows,
    agreement: Agreement,
) -> (Vec<&'a Vec<Option<String>>>, Vec<&'a Vec<Option<String>>>) {
    let (mut left_only, mut right_only) = (Vec::new(), Vec::new());
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    // Both are sorted: equal rows first, so that only what is left over is compared pair by pair.
    loop {
        match (l.peek(), r.peek()) {
            (Some(a), Some(b)) if a == b => {
                l.next();
                r.next();
            }
            (Some(a), Some(b)) if a < b => left_only.extend(l.next()),
            (_, Some(_)) => right_only.extend(r.next()),
            (Some(_), None) => left_only.extend(l.next()),
            (None, None) => break,
        }
    }
    if agreement == Agreement::Close {
        left_only.retain(|row| match right_only.iter().position(|other| close(row, other)) {
            Some(at) => {
                right_only.swap_remove(at);
                false
            }
            None => true,
        });
    }
    (left_only, right_only)
}

fn close(left: &[Option<String>], right: &[Option<String>]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| match (left, right) {
            (Some(left), Some(right)) => left == right || close_numbers(left, right),
            (None, None) => true,
            _ => false,
        })
}

/// Whether both are numbers, one of them with a point, that differ by less than the tolerance; or zeros of either sign.
pub fn close_numbers(left: &str, right: &str) -> bool {
    if matches!((left, right), ("0", "-0") | ("-0", "0")) {
        return true;
    }
    let has_point = |text: &str| text.contains(['.', 'e']);
    if !has_point(left) && !has_point(right) {
        return false;
    }
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => (left - right).abs() <= TOLERANCE * left.abs().max(right.abs()),
        _ => false,
    }
}

/// A Glimpse server and, where there is one, a PostgreSQL that holds the same rows.
#[derive(Debug)]
pub struct Comparison {
    /// A session of Glimpse's superuser.
    pub glimpse: Wire,
    /// One of PostgreSQL's.
    pub referee: Option<Wire>,
    _server: Server,
    _postgres: Option<Postgres>,
}

impl Comparison {
    /// Starts both servers; without a PostgreSQL on this machine, only the index and the ad hoc answer are compared.
    pub fn start() -> anyhow::Result<Comparison> {
        let server = Server::start()?;
        let glimpse = Wire::start(server.internal_sql_addr(), "mz_system", "materialize")?;
        let postgres = Postgres::start();
        if let Err(error) = &postgres {
            say(&format!("SKIPPED comparison with PostgreSQL: {error:#}"));
        }
        let postgres = postgres.ok();
        let referee =
            postgres.as_ref().map(|server| Wire::start(server.addr(), "mz_system", "materialize")).transpose()?;
        Ok(Comparison { glimpse, referee, _server: server, _postgres: postgres })
    }

    /// Runs a statement that both must accept.
    pub fn execute(&mut self, sql: &str) -> anyhow::Result<()> {
        self.glimpse.execute(sql)?;
        self.referee.as_mut().map_or(Ok(()), |referee| referee.execute(sql))
    }

    /// Makes a view and the index that maintains it.
    pub fn create(&mut self, view: &View) -> anyhow::Result<()> {
        let create = format!("CREATE VIEW {} AS {}", view.name, view.query);
        self.glimpse.execute(&create).map_err(|error| error.context(create.clone()))?;
        let index = format!("CREATE DEFAULT INDEX ON {}", view.name);
        self.glimpse.execute(&index).map_err(|error| error.context(create))
    }

    /// What the index gives.
    pub fn indexed(&mut self, view: &View) -> anyhow::Result<Answer> {
        Answer::of(&mut self.glimpse, &format!("SELECT * FROM {}", view.name))
    }

    /// Compares the three answers; gives the index's and the first difference found.
    pub fn compare(&mut self, view: &View) -> anyhow::Result<(Answer, Option<String>)> {
        let indexed = self.indexed(view)?;
        let adhoc = Answer::of(&mut self.glimpse, &view.query)?;
        let mut found = indexed.difference(&adhoc, "index and ad hoc", Agreement::Exact);
        if let (None, Some(referee), Some(query)) = (&found, &mut self.referee, &view.referee) {
            let expected = Answer::of(referee, query)?;
            found = indexed.difference(&expected, "index and PostgreSQL", Agreement::Close);
        }
        Ok((indexed, found))
    }

    /// Compares all views; gives the number of rows and fails with every difference.
    pub fn compare_all(&mut self, views: &[View], when: &str) -> anyhow::Result<usize> {
        let (mut failures, mut row_count) = (Vec::new(), 0);
        for view in views {
            let (answer, found) = self.compare(view)?;
            row_count += answer.row_count();
            failures.extend(found.map(|found| format!("{when}, {}: {found}\n{}", view.name, view.query)));
        }
        anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
        Ok(row_count)
    }
}

/// What a test reports beside its verdict.
#[allow(clippy::print_stdout, reason = "what was compared, and what could not be, is part of a test's output")]
pub fn say(text: &str) {
    println!("{text}");
}

/// A number from the environment.
pub fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Agreement, Answer};

    fn answer(values: &[&str]) -> Answer {
        let mut rows: Vec<_> = values.iter().map(|value| vec![Some((*value).to_owned())]).collect();
        rows.sort();
        Answer::Rows(rows)
    }

    fn differs(left: &[&str], right: &[&str], agreement: Agreement) -> bool {
        answer(left).difference(&answer(right), "", agreement).is_some()
    }

    #[test]
    fn a_difference_is_found() {
        assert!(!differs(&["a", "b"], &["b", "a"], Agreement::Exact));
        assert!(differs(&["a", "a"], &["a"], Agreement::Exact));
        assert!(differs(&["a"], &["a", "b"], Agreement::Close));
        assert!(differs(&["a"], &["b"], Agreement::Close));
    }

    #[test]
    fn only_numbers_with_a_point_may_be_close() {
        assert!(!differs(&["0.3333333333", "2"], &["0.33333333333333333333", "2.000"], Agreement::Close));
        assert!(differs(&["0.3333333333"], &["0.33333333333333333333"], Agreement::Exact));
        assert!(differs(&["0.33"], &["0.34"], Agreement::Close));
        assert!(differs(&["1000000000000"], &["1000000000001"], Agreement::Close));
        assert!(differs(&["1.5", "1.5"], &["1.5", "2.5"], Agreement::Close));
    }

    #[test]
    fn errors_agree_by_their_codes() {
        let error = |code: &str| Answer::Error(code.to_owned(), String::new());
        assert_eq!(error("22012").difference(&error("22012"), "", Agreement::Exact), None);
        assert!(error("22012").difference(&error("22003"), "", Agreement::Exact).is_some());
        assert_eq!(error("22012").difference(&error("22003"), "", Agreement::Close), None);
        assert!(error("22012").difference(&answer(&[]), "", Agreement::Close).is_some());
    }
}
