//! How a value is written in a sqllogictest file.
//!
//! The server's text form, with what a line cannot carry made visible: NULL is `NULL`, the empty string `(empty)`,
//! a newline `\n`, a tab `\t`, and a space at either end or after another space `␣`.

/// Writes one value.
pub fn value(value: Option<&[u8]>) -> String {
    let Some(bytes) = value else {
        return "NULL".to_owned();
    };
    if bytes.is_empty() {
        return "(empty)".to_owned();
    }
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before_is_space = true;
    while let Some(c) = chars.next() {
        match c {
            ' ' if before_is_space || chars.peek().is_none() => out.push('␣'),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => out.push(c),
        }
        before_is_space = c == ' ';
    }
    out
}

/// Writes one row.
pub fn join(row: &[String]) -> String {
    row.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn what_a_line_cannot_carry_is_visible() {
        assert_eq!(value(None), "NULL");
        assert_eq!(value(Some(b"")), "(empty)");
        assert_eq!(value(Some(b" a  b ")), "␣a ␣b␣");
        assert_eq!(value(Some(b"a b\nc\td")), "a b\\nc\\td");
    }
}
