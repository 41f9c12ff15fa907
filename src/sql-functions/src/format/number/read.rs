//! `to_number`: a number read by a template.
//!
//! Template and text are walked together. A place for a digit takes a digit if there is one and otherwise passes over a character;
//! what is no place passes over one as well.

use super::template::{Place, Template};
use crate::cast::parse_numeric;
use engine::error::SqlError;
use pgrepr::numeric::fits;
use repr::Datum;
use repr::sqlstate::SqlState;

/// Reads `text`. NULL by an empty template.
pub(super) fn to_number(text: &str, pattern: &str) -> Result<Datum<'static>, SqlError> {
    let template = Template::parse(pattern)?;
    if pattern.is_empty() {
        return Ok(Datum::Null);
    }
    for (present, name) in [(template.exponent, "EEEE"), (template.roman, "RN")] {
        if present {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("\"{name}\" not supported for input")));
        }
    }
    let mut reader =
        Reader { template: &template, rest: text, sign: None, digits: String::new(), before: 0, after: None };
    for place in &template.places {
        if reader.rest.is_empty() {
            break;
        }
        reader.place(place);
    }
    let after = reader.after.unwrap_or(0);
    let sign = reader.sign.map_or(' ', |negative| if negative { '-' } else { '+' });
    let (value, scale) = parse_numeric(&format!("{sign}{}", reader.digits))?;
    let precision = template.before + template.shift + after;
    if !fits(value, precision.min(u8::MAX.into()) as u8) && value != arrow::datatypes::i256::ZERO {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow"));
    }
    let shifted = i8::try_from(template.shift).ok().and_then(|shift| scale.checked_add(shift));
    let scale = shifted.ok_or_else(engine::value::overflow)?;
    Ok(Datum::Numeric(value, scale))
}

struct Reader<'t> {
    template: &'t Template,
    rest: &'t str,
    /// Whether it is negative, once that is known.
    sign: Option<bool>,
    digits: String,
    /// Digits before the point, and after it, once it has been read.
    before: usize,
    after: Option<usize>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// Passes over what cannot be part of a number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek().is_none_or(|c| c.is_ascii_digit() || ".,+-".contains(c)) {
                break;
            }
            self.skip();
        }
    }

    fn place(&mut self, place: &Place) {
        match (place, self.peek()) {
            (Place::Digit { .. } | Place::Point, _) => {
                self.digit(matches!(place, Place::Digit { .. }));
                self.skip();
            }
            (Place::Group, Some(',')) if !self.template.fill => self.skip(),
            (Place::Minus, Some('-')) => self.take_sign(true),
            (Place::Plus, Some('+')) => self.take_sign(false),
            (Place::Sign, Some(c @ ('-' | '+'))) => self.take_sign(c == '-'),
            (Place::Minus | Place::Plus | Place::Sign | Place::Currency, _) => self.skip_other(1),
            (Place::Ordinal { .. }, _) => self.skip_other(2),
            (Place::Literal(_), _) => self.skip(),
            (Place::Group | Place::Roman { .. } | Place::Mark, _) => {}
        }
    }

    fn take_sign(&mut self, negative: bool) {
        self.sign = Some(negative);
        self.skip();
    }

    /// Takes what stands in a digit's place, all but its last character.
    fn digit(&mut self, is_digit: bool) {
        if self.peek() == Some(' ') {
            self.skip();
        }
        let none_yet = self.before + self.after.unwrap_or(0) == 0;
        if self.sign.is_none() && is_digit && none_yet {
            self.leading_sign();
        }
        let Some(c) = self.peek() else { return };
        let mut taken = false;
        if c.is_ascii_digit() {
            match &mut self.after {
                Some(after) if *after == self.template.after => return,
                Some(after) => *after += 1,
                None => self.before += 1,
            }
            self.digits.push(c);
            taken = true;
        } else if c == '.' && self.template.point && self.after.is_none() {
            self.digits.push('.');
            self.after = Some(0);
            taken = true;
        }
        if self.sign.is_none() && self.before + self.after.unwrap_or(0) > 0 {
            self.trailing_sign(taken);
        }
    }

    fn leading_sign(&mut self) {
        match self.peek() {
            Some('-') => self.take_sign(true),
            Some('<') if self.template.brackets => self.take_sign(true),
            Some('+') => self.take_sign(false),
            _ => {}
        }
    }

    /// The sign behind the last digit, which templates may expect in several places.
    fn trailing_sign(&mut self, taken: bool) {
        let mut behind = self.rest.chars();
        let here = behind.next();
        let template = self.template;
        if template.sign.is_some() {
            if let (true, Some(c @ ('-' | '+'))) = (taken, behind.next()) {
                self.sign = Some(c == '-');
                self.skip();
            }
        } else if !taken
            && !template.plus
            && !template.minus
            && let Some(c @ ('-' | '+')) = here
        {
            self.sign = Some(c == '-');
        }
    }
}
