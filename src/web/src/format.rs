//! Which form an answer has: what `Accept` likes best of those that there are.

use crate::identify::single;
use crate::told::Refusal;
use axum::http::{HeaderMap, StatusCode, header};
use repr::sqlstate::SqlState;

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The results of any number of statements.
    Results,
    /// The rows of one statement.
    Rows(Shape),
    /// What happens to what one SUBSCRIBE follows.
    Events,
}

/// What rows look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Objects in lines.
    Lines,
    /// Lines of fields.
    Csv,
    /// A stream of Arrow batches.
    Arrow,
}

/// The names of each form, the proper one first.
const NAMES: [(Format, &[&str]); 5] = [
    (Format::Results, &["application/json"]),
    (Format::Rows(Shape::Lines), &["application/x-ndjson", "application/ndjson", "application/jsonl"]),
    (Format::Rows(Shape::Csv), &["text/csv"]),
    (Format::Rows(Shape::Arrow), &["application/vnd.apache.arrow.stream"]),
    (Format::Events, &["text/event-stream"]),
];

impl Format {
    /// What is said of a body of this form.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Results => "application/json",
            Format::Rows(Shape::Lines) => "application/x-ndjson",
            Format::Rows(Shape::Csv) => "text/csv; charset=utf-8; header=present",
            Format::Rows(Shape::Arrow) => "application/vnd.apache.arrow.stream",
            Format::Events => "text/event-stream",
        }
    }

    /// What a client likes best; results if it likes everything or says nothing. Errors: 406 if there is nothing that it likes.
    pub(crate) fn accepted(headers: &HeaderMap) -> Result<Format, Refusal> {
        let Some(accept) = single(headers, header::ACCEPT)? else { return Ok(Format::Results) };
        let liking = |(format, names): &(Format, &[&str])| {
            let liked = names.iter().map(|name| liked(accept, name)).max().unwrap_or_default();
            (liked > 0).then_some((liked, *format))
        };
        // Of those that are liked the same the first.
        let best = NAMES.iter().filter_map(liking).reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, format)| format).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(_, names)| names[0]).collect();
            let message = format!("there is no answer of a type that is accepted, but of {}", names.join(", "));
            Refusal::new(StatusCode::NOT_ACCEPTABLE, SqlState::FEATURE_NOT_SUPPORTED, message)
        })
    }
}

/// How much a type is liked, in thousandths: what the most specific range says that it is in.
fn liked(accept: &str, name: &str) -> u32 {
    let (main, _) = name.split_once('/').unwrap_or((name, ""));
    let ranges = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let of = parts.next()?;
        let specific = match of {
            "*/*" => 0,
            of if of.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(main)) => 1,
            of if of.eq_ignore_ascii_case(name) => 2,
            _ => return None,
        };
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0, |quality| quality.parse::<f64>().unwrap_or(0.0)).clamp(0.0, 1.0);
        Some((specific, (quality * 1000.0).round() as u32))
    });
    ranges.max_by_key(|(specific, _)| *specific).map_or(0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_best_of_what_is_accepted_is_sent() {
        for (accept, format) in [
            ("*/*", Some(Format::Results)),
            ("application/json", Some(Format::Results)),
            ("text/csv", Some(Format::Rows(Shape::Csv))),
            ("TEXT/CSV; charset=utf-8", Some(Format::Rows(Shape::Csv))),
            ("text/*", Some(Format::Rows(Shape::Csv))),
            ("text/event-stream", Some(Format::Events)),
            ("application/x-ndjson", Some(Format::Rows(Shape::Lines))),
            ("application/vnd.apache.arrow.stream, */*;q=0.1", Some(Format::Rows(Shape::Arrow))),
            ("text/csv;q=0.5, application/jsonl;q=0.9", Some(Format::Rows(Shape::Lines))),
            ("*/*, application/json;q=0", Some(Format::Rows(Shape::Lines))),
            ("text/html, application/xhtml+xml, */*;q=0.8", Some(Format::Results)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).expect("it is one"));
            assert_eq!(Format::accepted(&headers).ok(), format, "{accept}");
        }
        assert_eq!(Format::accepted(&HeaderMap::new()).ok(), Some(Format::Results));
    }
}
