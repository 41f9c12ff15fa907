//! WITH MUTUALLY RECURSIVE in sqlparser's syntax tree, which has no place for it: as WITH RECURSIVE whose first query has a
//! name that no text can contain and that says what the clause said.

use datafusion::sql::sqlparser::ast as sp;

/// After how many rounds a recursion ends that has not come to its end by itself, if none are named.
///
/// Enough for a path of ten thousand steps; for others it is better to be told than to wait.
pub const ROUNDS_DEFAULT: u64 = 10_000;

/// How long a recursion may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecursionLimit {
    /// How often its queries are evaluated.
    pub rounds: u64,
    /// What happens if the last round still changed something.
    pub then: AtLimit,
}

/// What happens to a recursion at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AtLimit {
    /// What the last round gave is the result.
    Return,
    /// There is no result but an error.
    Error,
}

impl Default for RecursionLimit {
    fn default() -> RecursionLimit {
        RecursionLimit { rounds: ROUNDS_DEFAULT, then: AtLimit::Error }
    }
}

/// How the name of the first query begins. No text holds a zero.
const MARK: &str = "\0mutually recursive";

impl RecursionLimit {
    /// The name of the first query.
    pub fn mark(self) -> String {
        let then = if self.then == AtLimit::Return { "return" } else { "error" };
        format!("{MARK} {} {then}", self.rounds)
    }

    /// The limit of a WITH clause that is mutually recursive; its own queries follow the first one.
    pub fn of(with: &sp::With) -> Option<RecursionLimit> {
        let name = &with.cte_tables.first()?.alias.name.value;
        let (rounds, then) = name.strip_prefix(MARK)?.trim_start().split_once(' ')?;
        let then = if then == "return" { AtLimit::Return } else { AtLimit::Error };
        Some(RecursionLimit { rounds: rounds.parse().ok()?, then })
    }
}
