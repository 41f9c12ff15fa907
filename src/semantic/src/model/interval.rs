//! Lengths of time as models write them: `1 month`, `2 weeks 3 days`, `-1 hour`.

/// Lengths of time that are added: at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval(pub Vec<(i32, Unit)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

/// Units by their names.
pub const UNITS: [(&str, Unit); 8] = [
    ("second", Unit::Second),
    ("minute", Unit::Minute),
    ("hour", Unit::Hour),
    ("day", Unit::Day),
    ("week", Unit::Week),
    ("month", Unit::Month),
    ("quarter", Unit::Quarter),
    ("year", Unit::Year),
];

impl Unit {
    /// `day` or `days`.
    pub fn named(word: &str) -> Option<Unit> {
        let word = word.strip_suffix('s').unwrap_or(word);
        UNITS.iter().find(|(name, _)| *name == word).map(|(_, unit)| *unit)
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (number, unit)) in self.0.iter().enumerate() {
            let name = UNITS.iter().find(|(_, known)| known == unit).map_or("", |(name, _)| *name);
            let (space, plural) = (if at == 0 { "" } else { " " }, if *number == 1 { "" } else { "s" });
            write!(f, "{space}{number} {name}{plural}")?;
        }
        Ok(())
    }
}

impl Interval {
    /// None if the text is no interval. A minus before a number is for that number alone.
    pub fn parse(text: &str) -> Option<Interval> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (pairs, rest) = words.as_chunks::<2>();
        let parts = pairs.iter().map(|[number, unit]| Some((number.parse().ok()?, Unit::named(unit)?)));
        let parts: Option<Vec<(i32, Unit)>> = parts.collect();
        parts.filter(|parts| !parts.is_empty() && rest.is_empty()).map(Interval)
    }

    /// Whether it is longer than nothing, whatever the month.
    pub fn is_positive(&self) -> bool {
        self.0.iter().all(|(number, _)| *number > 0)
    }

    /// Whether buckets of this length begin where the next larger unit begins, so that nobody has to say from where they are counted.
    pub fn divides_its_parent(&self) -> bool {
        let [(number, unit)] = self.0[..] else { return false };
        if number <= 0 {
            return false;
        }
        match unit {
            Unit::Year => true,
            Unit::Month => 12 % number == 0,
            Unit::Quarter => 4 % number == 0,
            Unit::Week | Unit::Day => number == 1,
            Unit::Hour => 24 % number == 0,
            Unit::Minute | Unit::Second => 60 % number == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(Interval::parse("1 month"), Some(Interval(vec![(1, Unit::Month)])));
        assert_eq!(Interval::parse("2 weeks  -3 days"), Some(Interval(vec![(2, Unit::Week), (-3, Unit::Day)])));
        for wrong in ["", "month", "1", "1 fortnight", "1.5 days", "1 day 2", "99999999999 days"] {
            assert_eq!(Interval::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_divides_its_parent() {
        let divides = |text: &str| Interval::parse(text).expect("an interval").divides_its_parent();
        for text in ["7 years", "3 months", "2 quarters", "1 week", "6 hours", "15 minutes", "30 seconds"] {
            assert!(divides(text), "{text}");
        }
        for text in ["5 months", "3 quarters", "2 weeks", "2 days", "5 hours", "7 minutes", "1 day 1 hour", "0 months"]
        {
            assert!(!divides(text), "{text}");
        }
    }
}
