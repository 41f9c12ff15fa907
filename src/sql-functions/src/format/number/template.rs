//! The template of a number, taken apart.

use engine::error::SqlError;
use repr::sqlstate::SqlState;

/// A number's template.
#[derive(Default)]
pub(super) struct Template {
    pub(super) places: Vec<Place>,
    /// Digits before the point, after it, and behind `V`.
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) shift: usize,
    /// The first `0` before the point, by the digits before it; and how many digits there are up to the last `0`.
    pub(super) zero_start: Option<usize>,
    pub(super) zero_end: usize,
    pub(super) sign: Option<SignPlace>,
    pub(super) fill: bool,
    pub(super) point: bool,
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) brackets: bool,
    pub(super) roman: bool,
    pub(super) exponent: bool,
    multiplied: bool,
}

/// Where `S` writes the sign: right before the number, behind so many digits of the template, or right after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignPlace {
    Before(usize),
    After,
}

/// One piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// `9` or `0`
    Digit {
        zero: bool,
    },
    /// `.` or `D`
    Point,
    /// `,` or `G`
    Group,
    /// `L`, which is a blank here
    Currency,
    /// `TH`
    Ordinal {
        upper: bool,
    },
    /// `RN`
    Roman {
        upper: bool,
    },
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    Sign,
    /// What says something about the others and writes nothing.
    Mark,
    Literal(char),
}

/// The patterns, of those that begin alike the longer ones first. Each is also known in lower case.
const PATTERNS: [&str; 21] = [
    ",", ".", "0", "9", "B", "C", "D", "EEEE", "FM", "G", "L", "MI", "PL", "PR", "RN", "SG", "SP", "S", "TH", "V", "\"",
];

impl Template {
    pub(super) fn parse(text: &str) -> Result<Template, SqlError> {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let pattern = PATTERNS
                .iter()
                .find(|pattern| rest.starts_with(**pattern) || rest.starts_with(&pattern.to_lowercase()));
            rest = match pattern {
                Some(&"\"") => template.quoted(&rest[1..]),
                Some(pattern) => {
                    let place = template.place(pattern, c.is_ascii_uppercase())?;
                    template.places.push(place);
                    &rest[pattern.len()..]
                }
                None if rest.starts_with("\\\"") => {
                    template.places.push(Place::Literal('"'));
                    &rest[2..]
                }
                None => {
                    template.places.push(Place::Literal(c));
                    &rest[c.len_utf8()..]
                }
            };
        }
        Ok(template)
    }

    /// Literals up to the closing quote.
    fn quoted<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => return &text[at + 1..],
                '\\' => self.places.extend(chars.next().map(|(_, c)| Place::Literal(c))),
                c => self.places.push(Place::Literal(c)),
            }
        }
        ""
    }

    #[expect(clippy::too_many_lines, reason = "a line or two for each pattern")]
    fn place(&mut self, pattern: &str, upper: bool) -> Result<Place, SqlError> {
        let refuse = |refused: bool, message: &str| match refused {
            true => Err(SqlError::new(SqlState::SYNTAX_ERROR, message)),
            false => Ok(()),
        };
        refuse(self.exponent && pattern != "EEEE", "\"EEEE\" must be the last pattern used")?;
        Ok(match pattern {
            "9" | "0" => {
                refuse(self.brackets, &format!("\"{pattern}\" must be ahead of \"PR\""))?;
                let zero = pattern == "0";
                if !zero && self.multiplied {
                    self.shift += 1;
                    return Ok(Place::Digit { zero });
                }
                if zero && !self.point {
                    self.zero_start.get_or_insert(self.before);
                }
                let count = if self.point { &mut self.after } else { &mut self.before };
                *count += 1;
                if zero {
                    self.zero_end = self.before + self.after;
                }
                Place::Digit { zero }
            }
            "." | "D" => {
                refuse(self.point, "multiple decimal points")?;
                refuse(self.multiplied, "cannot use \"V\" and decimal point together")?;
                self.point = true;
                Place::Point
            }
            "V" => {
                refuse(self.point, "cannot use \"V\" and decimal point together")?;
                self.multiplied = true;
                Place::Mark
            }
            "S" => {
                refuse(self.sign.is_some(), "cannot use \"S\" twice")?;
                let others = self.plus || self.minus || self.brackets;
                refuse(others, "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together")?;
                self.sign = Some(if self.point { SignPlace::After } else { SignPlace::Before(self.before) });
                Place::Mark
            }
            "MI" | "PL" | "SG" => {
                refuse(self.sign.is_some(), &format!("cannot use \"S\" and \"{pattern}\" together"))?;
                self.minus |= pattern != "PL";
                self.plus |= pattern != "MI";
                match pattern {
                    "MI" => Place::Minus,
                    "PL" => Place::Plus,
                    _ => Place::Sign,
                }
            }
            "PR" => {
                let others = self.sign.is_some() || self.plus || self.minus;
                refuse(others, "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together")?;
                self.brackets = true;
                Place::Mark
            }
            "EEEE" => {
                refuse(self.exponent, "cannot use \"EEEE\" twice")?;
                let others = self.fill || self.sign.is_some() || self.brackets || self.minus || self.plus;
                refuse(others || self.roman || self.multiplied, "\"EEEE\" is incompatible with other formats")?;
                self.exponent = true;
                Place::Mark
            }
            "RN" => {
                self.roman = true;
                Place::Roman { upper }
            }
            "FM" => {
                self.fill = true;
                Place::Mark
            }
            "," | "G" => Place::Group,
            "L" => Place::Currency,
            "TH" => Place::Ordinal { upper },
            // B, C and SP
            _ => Place::Mark,
        })
    }
}
