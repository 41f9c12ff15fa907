//! WITH MUTUALLY RECURSIVE in sqlparser's syntax tree, which has no place for it: as WITH RECURSIVE whose first query has a
//! name that no text can contain and that says what the clause said.

use engine::recursion::{AtLimit, RecursionLimit};
use sqlparser::ast as sp;

/// How the name of the first query begins. No text holds a zero.
const MARK: &str = "\0mutually recursive";

/// The text of a query.
pub fn print_query(query: &sp::Query) -> String {
    let text = query.to_string();
    let mark = format!("RECURSIVE \"{MARK} ");
    let mut parts = text.split(&mark);
    let mut printed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (mark, rest) = part.split_once("\" AS (SELECT NULL), ").unwrap_or(("", part));
        let (rounds, then) = mark.split_once(' ').unwrap_or_default();
        printed += &format!("MUTUALLY RECURSIVE ({} AT RECURSION LIMIT {rounds}) {rest}", then.to_uppercase());
    }
    printed
}

/// The name of the first query of a WITH clause that is mutually recursive.
pub fn mark(limit: RecursionLimit) -> String {
    let then = if limit.then == AtLimit::Return { "return" } else { "error" };
    format!("{MARK} {} {then}", limit.rounds)
}

/// The limit of a WITH clause that is mutually recursive; its own queries follow the first one.
pub fn limit_of(with: &sp::With) -> Option<RecursionLimit> {
    let name = &with.cte_tables.first()?.alias.name.value;
    let (rounds, then) = name.strip_prefix(MARK)?.trim_start().split_once(' ')?;
    let then = if then == "return" { AtLimit::Return } else { AtLimit::Error };
    Some(RecursionLimit { rounds: rounds.parse().ok()?, then })
}

#[cfg(test)]
mod tests {
    use super::print_query;
    use crate::parser::parse_query;

    #[test]
    fn a_printed_query_is_the_query() {
        for (text, printed) in [
            ("WITH MUTUALLY RECURSIVE (RETURN AT RECURSION LIMIT 7) r (n INT) AS (SELECT 1) SELECT n FROM r", None),
            (
                "with mutually recursive r (n int) as (with mutually recursive (recursion limit 3) q (n int) as (select 1) \
                 select n from q) select n from r",
                Some(
                    "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 10000) r (n INT) AS (WITH MUTUALLY RECURSIVE \
                     (ERROR AT RECURSION LIMIT 3) q (n INT) AS (SELECT 1) SELECT n FROM q) SELECT n FROM r",
                ),
            ),
            ("WITH RECURSIVE r (n) AS (SELECT 1) SELECT n FROM r", None),
        ] {
            let query = parse_query(text).expect("valid SQL");
            assert_eq!(print_query(&query), printed.unwrap_or(text));
            assert_eq!(parse_query(&print_query(&query)).expect("valid SQL"), query);
        }
    }
}
