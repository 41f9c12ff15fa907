//! When two jsonb are equal, and which comes first.
//!
//! A number keeps the digits that were written, so the canonical texts of equal documents can differ: `1.0` and `1`. A
//! document is compared by its key: bytes that are equal for equal documents, and that `memcmp` orders as PostgreSQL
//! orders the documents: null, strings, numbers, booleans, arrays, objects; those of fewer parts before those of more.

use super::{Mode, Node, Parser, print};

/// An array without items, which PostgreSQL puts before everything if it is the whole document.
const NOTHING: u8 = 0;
const NULL: u8 = 1;
const TEXT: u8 = 2;
const NUMBER: u8 = 3;
const FALSE: u8 = 4;
const TRUE: u8 = 5;
const ARRAY: u8 = 6;
const OBJECT: u8 = 7;

/// The key of a jsonb's canonical text. What is no document has an empty one.
pub fn order_key(document: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(document.len() + 8);
    match parsed(document) {
        Some(Node::Array(items)) if items.is_empty() => key.push(NOTHING),
        Some(node) => write(&node, &mut key),
        None => {}
    }
    key
}

/// The text that all documents equal to this one share: its numbers have no zeros at their ends.
pub fn common_jsonb(document: &str) -> String {
    let Some(mut node) = parsed(document) else { return document.to_owned() };
    shorten(&mut node);
    let mut out = String::with_capacity(document.len());
    print(&node, &mut out);
    out
}

/// Appends the key of a number in plain digits: its sign, how many digits are before the point, the digits.
pub fn write_number(number: &str, key: &mut Vec<u8>) {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        key.push(1);
        return;
    }
    let leading_zeros = all.len() - all.trim_start_matches('0').len();
    let length = |digits: usize| i64::try_from(digits).expect("a text is shorter than half of the memory");
    let magnitude = length(whole.len()) - length(leading_zeros);
    key.push(if negative { 0 } else { 2 });
    let from = key.len();
    key.extend_from_slice(&(magnitude.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    key.extend_from_slice(significant.as_bytes());
    key.push(0);
    if negative {
        key[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn parsed(document: &str) -> Option<Node> {
    Parser { text: document, at: 0, depth: 0, mode: Mode::Jsonb }.document().ok()
}

fn write(node: &Node, key: &mut Vec<u8>) {
    match node {
        Node::Plain(text) => match text.as_str() {
            "null" => key.push(NULL),
            "false" => key.push(FALSE),
            "true" => key.push(TRUE),
            number => {
                key.push(NUMBER);
                write_number(number, key);
            }
        },
        Node::Text(text) => {
            key.push(TEXT);
            write_text(text, key);
        }
        Node::Array(items) => {
            key.push(ARRAY);
            key.extend_from_slice(&(items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| write(item, key));
        }
        Node::Object(members) => {
            key.push(OBJECT);
            key.extend_from_slice(&(members.len() as u64).to_be_bytes());
            for (name, value) in members {
                write_text(name, key);
                write(value, key);
            }
        }
    }
}

/// A jsonb has no zero bytes in its texts.
fn write_text(text: &str, key: &mut Vec<u8>) {
    key.extend_from_slice(text.as_bytes());
    key.push(0);
}

fn shorten(node: &mut Node) {
    match node {
        Node::Plain(number) if number.contains('.') => {
            let short = number.trim_end_matches('0').trim_end_matches('.').len();
            number.truncate(short);
        }
        Node::Plain(_) | Node::Text(_) => {}
        Node::Array(items) => items.iter_mut().for_each(shorten),
        Node::Object(members) => members.iter_mut().for_each(|(_, value)| shorten(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::{common_jsonb, order_key};

    #[test]
    fn keys_are_ordered_as_documents_are() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "-100",
            "-1.5",
            "-0.001",
            "0",
            "0.001",
            "0.01",
            "1",
            "1.01",
            "9",
            "10",
            "false",
            "true",
            "[null]",
            "[2]",
            "[[]]",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": 2}",
            "{\"b\": 0}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(order_key(a).cmp(&order_key(b)), i.cmp(&j), "{a} and {b}");
            }
        }
    }

    #[test]
    fn equal_documents_share_a_key_and_a_text() {
        for (a, b) in [("1.0", "1"), ("0.00", "0"), ("-2.50", "-2.5"), ("[1.0, {\"a\": 2.00}]", "[1, {\"a\": 2}]")] {
            assert_eq!(order_key(a), order_key(b), "{a} and {b}");
            assert_eq!(common_jsonb(a), b);
        }
        assert_eq!(common_jsonb("\"1.0\""), "\"1.0\"");
    }
}
