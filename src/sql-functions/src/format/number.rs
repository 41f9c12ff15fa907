//! Templates of numbers: `to_char` and `to_number`.
//!
//! A template is a list of places and literals ([`template`]). Postgres walks the number's own text beside it, one character for each
//! place, and whatever a place writes depends on where that walk is; here is the same walk, because what strange templates give
//! is known from it alone. A number that has too many digits is `#`, and where the number's text has ended, so has the result.

mod read;
mod template;

use crate::library::Library;
use crate::{decimal, float, int, new_text, text};
use arrow::datatypes::i256;
use engine::error::SqlError;
use engine::value::overflow;
use pgrepr::numeric::{power_of_ten, rescale};
use repr::Datum;
use repr::sqlstate::SqlState;
use template::{Place, SignPlace, Template};

/// The significant digits of float4 and float8 that are written.
const FLOAT4_DIGITS: usize = 6;
const FLOAT8_DIGITS: usize = 15;
/// The width of a Roman numeral.
const ROMAN_WIDTH: usize = 15;

/// Declares the functions of this file.
pub(super) fn declare(library: &mut Library) {
    for ty in ["int4", "int8"] {
        library.add(&format!("to_char({ty}, text) text"), |call, a| {
            let digits = if call.args[0] == repr::PgType::Int4 { FLOAT8_DIGITS } else { 0 };
            to_char(text(a, 1), &Integer { value: int(a, 0), exponent_digits: digits })
        });
    }
    library.add("to_char(numeric, text) text", |_, a| to_char(text(a, 1), &Decimal(decimal(a, 0))));
    library.add("to_char(float4, text) text", |_, a| to_char(text(a, 1), &Float(float(a, 0), FLOAT4_DIGITS)));
    library.add("to_char(float8, text) text", |_, a| to_char(text(a, 1), &Float(float(a, 0), FLOAT8_DIGITS)));
    library.add("to_number(text, text) numeric", |_, a| read::to_number(text(a, 0), text(a, 1)));
}

/// A number as the templates want it.
trait Number {
    /// Its sign and digits, moved left by the template's `V` and with as many digits after the point as the template has, which
    /// may be made fewer.
    fn digits(&self, template: &mut Template) -> Result<String, SqlError>;
    /// With an exponent and so many digits after the point; `None` if it is not finite.
    fn scientific(&self, digits: usize) -> Result<Option<String>, SqlError>;
    /// The nearest integer; `None` beyond those of int4.
    fn whole(&self) -> Result<i64, SqlError>;
}

struct Integer {
    value: i64,
    /// 0 of an int8, which is calculated with as a numeric.
    exponent_digits: usize,
}

struct Decimal((i256, i8));

/// A float, and how many digits of it are written.
struct Float(f64, usize);

impl Number for Integer {
    fn digits(&self, template: &mut Template) -> Result<String, SqlError> {
        let factor = 10_i64.checked_pow(template.shift as u32);
        let moved = factor.and_then(|factor| self.value.checked_mul(factor)).ok_or_else(overflow)?;
        let zeros = "0".repeat(template.after);
        Ok(if zeros.is_empty() { moved.to_string() } else { format!("{moved}.{zeros}") })
    }

    fn scientific(&self, digits: usize) -> Result<Option<String>, SqlError> {
        if self.exponent_digits == 0 {
            return Decimal((i256::from(self.value), 0)).scientific(digits);
        }
        Float(self.value as f64, self.exponent_digits).scientific(digits)
    }

    fn whole(&self) -> Result<i64, SqlError> {
        i32::try_from(self.value).map(i64::from).map_err(|_| integer_out_of_range())
    }
}

impl Number for Decimal {
    fn digits(&self, template: &mut Template) -> Result<String, SqlError> {
        let (value, scale) = self.0;
        let factor = power_of_ten(template.shift as u32).ok_or_else(overflow)?;
        let moved = value.checked_mul(factor).ok_or_else(overflow)?;
        Ok(decimal_text((moved, scale), template.after))
    }

    fn scientific(&self, digits: usize) -> Result<Option<String>, SqlError> {
        let (value, scale) = self.0;
        let all = value.wrapping_abs().to_string();
        let exponent = if value == i256::ZERO { 0 } else { all.len() as i32 - 1 - i32::from(scale) };
        // The digits as a number below ten, whose rounding may make it ten.
        let significand = (value, if value == i256::ZERO { 0 } else { (all.len() - 1) as i8 });
        let text = decimal_text(significand, digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        Ok(Some(format!("{text}e{sign}{:02}", exponent.abs())))
    }

    fn whole(&self) -> Result<i64, SqlError> {
        let (value, scale) = self.0;
        let whole = rescale(value, scale, 0).and_then(|whole| whole.to_i128());
        let whole = whole.and_then(|whole| i32::try_from(whole).ok());
        whole.map(i64::from).ok_or_else(integer_out_of_range)
    }
}

impl Number for Float {
    fn digits(&self, template: &mut Template) -> Result<String, SqlError> {
        let Float(value, digits_max) = *self;
        let value = value * 10_f64.powi(template.shift as i32);
        if !value.is_finite() {
            let name = if value.is_nan() { "NaN" } else { "Infinity" };
            return Ok(format!("{}{name}", if value < 0.0 { "-" } else { "" }));
        }
        let before = format!("{:.0}", value.abs()).len();
        template.after = template.after.min(digits_max.saturating_sub(before));
        Ok(format!("{value:.*}", template.after))
    }

    fn scientific(&self, digits: usize) -> Result<Option<String>, SqlError> {
        if !self.0.is_finite() {
            return Ok(None);
        }
        let text = format!("{:.digits$e}", self.0);
        let (significand, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        Ok(Some(format!("{significand}e{sign}{exponent:0>2}")))
    }

    fn whole(&self) -> Result<i64, SqlError> {
        // What is no int4 is no Roman numeral either.
        Ok(if self.0.is_finite() { self.0.round_ties_even() as i64 } else { 0 })
    }
}

fn integer_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")
}

/// A numeric with so many digits after the point, rounded.
fn decimal_text((value, scale): (i256, i8), digits: usize) -> String {
    let wanted = digits.min(38) as i8;
    let Some(value) = rescale(value, scale, wanted) else { return "#".repeat(80) };
    let text = value.wrapping_abs().to_string();
    let text = format!("{text:0>width$}", width = wanted as usize + 1);
    let (whole, fraction) = text.split_at(text.len() - wanted as usize);
    let sign = if value < i256::ZERO { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn to_char(pattern: &str, number: &dyn Number) -> Result<Datum<'static>, SqlError> {
    let mut template = Template::parse(pattern)?;
    if template.exponent {
        let text = number.scientific(template.after)?;
        let text = text.map_or_else(
            || format!(" {}.{}", "#".repeat(template.before), "#".repeat(template.after + 4)),
            |text| if text.starts_with('-') { text } else { format!(" {text}") },
        );
        return Ok(new_text(text));
    }
    if template.roman {
        return Ok(new_text(write_roman(&template, &roman(number.whole()?))));
    }
    let text = number.digits(&mut template)?;
    template.before += template.shift;
    let (negative, text) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
    let before = text.find('.').unwrap_or(text.len());
    let blanks = template.before.saturating_sub(before);
    let digits = if before > template.before {
        format!("{}.{}", "#".repeat(template.before), "#".repeat(template.after))
    } else {
        text.to_owned()
    };
    Ok(new_text(Writer::new(&template, digits.into_bytes(), negative, blanks).write()))
}

/// The walk over a template and a number's text.
struct Writer<'t> {
    template: &'t Template,
    digits: Vec<u8>,
    negative: bool,
    /// Places before the first digit.
    blanks: usize,
    brackets: bool,
    sign_place: Option<SignPlace>,
    sign_written: bool,
    /// The digit behind which nothing counts.
    last_relevant: Option<usize>,
    /// How many places there are.
    places: usize,
    /// The next place, and the next digit.
    place: usize,
    at: usize,
    /// Whether the last place wrote a digit.
    in_number: bool,
    out: String,
    /// Whether the digits have ended before the places have.
    ended: bool,
}

impl<'t> Writer<'t> {
    fn new(template: &'t Template, digits: Vec<u8>, negative: bool, blanks: usize) -> Writer<'t> {
        let placed = template.plus || template.minus;
        let sign_place = match template.sign {
            Some(SignPlace::Before(at)) if !placed && at == template.before => Some(SignPlace::After),
            sign => sign,
        };
        let sign_written = match placed {
            true => template.minus,
            false => !negative && template.fill && template.sign.is_none(),
        };
        let mut last_relevant = None;
        if template.fill && template.point {
            last_relevant = digits.iter().position(|byte| *byte == b'.').map(|point| {
                let kept = digits[point..].iter().rposition(|byte| *byte != b'0').map_or(point, |at| point + at);
                let zero = match template.zero_end > blanks {
                    true => (digits.len() - 1).min(template.zero_end - blanks),
                    false => 0,
                };
                kept.max(zero)
            });
        }
        let places = (template.after + template.before).saturating_sub(1) + usize::from(!sign_written && blanks == 0);
        Writer {
            template,
            digits,
            negative,
            blanks,
            brackets: template.brackets && (negative || !template.fill),
            sign_place,
            sign_written,
            last_relevant,
            places,
            place: 0,
            at: 0,
            in_number: false,
            out: String::new(),
            ended: false,
        }
    }

    fn write(mut self) -> String {
        for place in &self.template.places {
            if self.ended {
                break;
            }
            let fill = self.template.fill;
            match place {
                Place::Digit { .. } | Place::Point => self.digit(place),
                Place::Group if !self.in_number => self.blank(),
                Place::Group => self.out.push(','),
                Place::Currency => self.out.push(' '),
                Place::Ordinal { upper } => self.ordinal(*upper),
                Place::Minus if self.negative => self.out.push('-'),
                Place::Plus if !self.negative => self.out.push('+'),
                Place::Minus | Place::Plus => self.out.push_str(if fill { "" } else { " " }),
                Place::Sign => self.out.push(if self.negative { '-' } else { '+' }),
                Place::Roman { .. } | Place::Mark => {}
                Place::Literal(c) => self.out.push(*c),
            }
        }
        self.out
    }

    fn blank(&mut self) {
        if !self.template.fill {
            self.out.push(' ');
        }
    }

    fn is_point(&self, at: Option<usize>) -> bool {
        at.is_some_and(|at| self.digits.get(at) == Some(&b'.'))
    }

    /// Whether this is the zero before the point, for which templates without `0` leave no more than a blank.
    fn is_leading_zero(&self) -> bool {
        self.template.zero_start.is_none()
            && self.at == 0
            && self.digits.first() == Some(&b'0')
            && self.template.after != 0
    }

    /// One place of the number.
    fn digit(&mut self, place: &Place) {
        self.in_number = false;
        let zero_from = self.template.zero_start;
        let begins = self.place >= self.blanks || zero_from == Some(self.place);
        if !self.sign_written && begins && (!self.is_leading_zero() || self.is_point(self.last_relevant)) {
            self.opening_sign();
        }
        if self.place < self.blanks && zero_from.is_none_or(|from| from > self.place) {
            self.blank();
        } else if self.place < self.blanks {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.own_digit(place);
        }
        let mut end = self.places + usize::from(self.blanks > 0) + usize::from(self.template.point);
        if self.last_relevant == Some(self.at) {
            end = self.place;
        }
        if self.place + 1 == end && !self.ended {
            if self.sign_written && self.brackets {
                self.out.push(if self.negative { '>' } else { ' ' });
            } else if self.sign_place == Some(SignPlace::After) {
                self.out.push(if self.negative { '-' } else { '+' });
            }
        }
        self.place += 1;
    }

    fn opening_sign(&mut self) {
        match self.sign_place {
            Some(SignPlace::Before(_)) => self.out.push(if self.negative { '-' } else { '+' }),
            Some(SignPlace::After) => return,
            None if self.brackets => self.out.push(if self.negative { '<' } else { ' ' }),
            None if self.negative => self.out.push('-'),
            None => self.blank(),
        }
        self.sign_written = true;
    }

    fn own_digit(&mut self, place: &Place) {
        let byte = self.digits.get(self.at).copied();
        match byte {
            Some(b'.') => self.out.push('.'),
            _ if self.last_relevant.is_some_and(|last| self.at > last) && *place != (Place::Digit { zero: true }) => {}
            _ if self.is_leading_zero() => {
                if !self.template.fill {
                    self.out.push(' ');
                } else if self.is_point(self.last_relevant) {
                    self.out.push('0');
                }
            }
            Some(digit) => {
                self.out.push(digit.into());
                self.in_number = true;
            }
            None => self.ended = true,
        }
        self.at += usize::from(byte.is_some());
    }

    /// `st`, `nd`, `rd`, `th`
    fn ordinal(&mut self, upper: bool) {
        if self.negative || self.template.point || self.digits.first() == Some(&b'#') {
            return;
        }
        let teens = self.digits.iter().rev().nth(1) == Some(&b'1');
        let ending = match self.digits.last() {
            Some(b'1') if !teens => "st",
            Some(b'2') if !teens => "nd",
            Some(b'3') if !teens => "rd",
            _ => "th",
        };
        self.out.push_str(&if upper { ending.to_uppercase() } else { ending.to_owned() });
    }
}

fn write_roman(template: &Template, numeral: &str) -> String {
    let mut out = String::new();
    for place in &template.places {
        match place {
            Place::Roman { upper } => {
                let numeral = if *upper { numeral.to_owned() } else { numeral.to_lowercase() };
                let width = if template.fill { 0 } else { ROMAN_WIDTH };
                out.push_str(&format!("{numeral:>width$}"));
            }
            Place::Group if !template.fill => out.push(' '),
            Place::Currency => out.push(' '),
            Place::Literal(c) => out.push(*c),
            _ => {}
        }
    }
    out
}

/// A numeral, or as many `#` as the longest one has letters.
fn roman(value: i64) -> String {
    if !(1..=3999).contains(&value) {
        return "#".repeat(ROMAN_WIDTH);
    }
    let letters = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let (mut rest, mut out) = (value, String::new());
    for (worth, letter) in letters {
        while rest >= worth {
            out.push_str(letter);
            rest -= worth;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Decimal, Float, Integer, Number, to_char};
    use arrow::datatypes::i256;
    use repr::Datum;

    fn written(number: &dyn Number, template: &str) -> String {
        match to_char(template, number) {
            Ok(Datum::Text(text)) => text.into_owned(),
            other => panic!("{template}: {other:?}"),
        }
    }

    #[test]
    fn numbers_as_postgresql_15_writes_them() {
        let hundredths = |value: i128| Decimal((i256::from_i128(value), 2));
        let cases = [
            (0, "9.99", "  .00"),
            (50, "99", "  1"),
            (1200, "S9999", "  +12"),
            (-1200, "9999PR", "  <12>"),
            (1200, "9999PR", "   12 "),
            (-1200, "MI9999", "-  12"),
            (123_450, "FM9,999.00", "1,234.50"),
            (500, "9,999", "     5"),
            (500, "FM9,999", "5"),
            (-10, "99.99", "  -.10"),
            (-10, "FM9.99", "-.1"),
            (1200, "9990999.9", "    0012.0"),
            (1200, "FM9990999.9", "0012."),
            (48_500, "9 9 9", " 4 8 5"),
            (14_850, "FM999.990", "148.500"),
            (-48_500, "999S", "485-"),
            (-48_500, "999 S", "485- "),
            (123_400, "99.99", " ##.##"),
            (0, ".99", " .##"),
            (0, "FM9.99|", "0.|"),
            (48_580, "999.", " 486"),
            (48_580, "999V99", " 48580"),
            (48_580, "9.99EEEE", " 4.86e+02"),
            (48_580, "FMRN", "CDLXXXVI"),
            (48_580, "PL999", "+ 486"),
            (48_580, "\"a\\\"b\"999", "a\"b 486"),
        ];
        for (value, template, expected) in cases {
            assert_eq!(written(&hundredths(value), template), expected, "{value} as {template}");
        }
        assert_eq!(written(&Float(0.1_f32.into(), 6), "0.9999999999"), " 0.10000");
        assert_eq!(written(&Float(-0.5, 15), "9"), "-0");
        assert_eq!(written(&Float(f64::NEG_INFINITY, 15), "999.99"), "-###.##");
        assert_eq!(written(&Float(f64::NAN, 15), "9.99EEEE"), " #.######");
        assert_eq!(written(&Integer { value: 111, exponent_digits: 15 }, "FM999th"), "111th");
        assert_eq!(written(&Integer { value: 23, exponent_digits: 15 }, "99TH"), " 23RD");
    }

    #[test]
    fn templates_that_are_none() {
        for template in ["9EEEE9", "S9S", "MI9S", "9PR9", "S999PR", "V.9", "9.9.9"] {
            let error = to_char(template, &Float(1.0, 15)).expect_err(template);
            assert_eq!(error.sqlstate.code(), "42601", "{template}");
        }
    }
}
