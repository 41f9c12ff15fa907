//! What a filter can say of a member: Cube's operators, for queries and for access policies.

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// One of the values.
    Equals,
    NotEquals,
    Contains,
    NotContains,
    StartsWith,
    NotStartsWith,
    EndsWith,
    NotEndsWith,
    Gt,
    Gte,
    Lt,
    Lte,
    /// Not NULL.
    Set,
    NotSet,
    InDateRange,
    NotInDateRange,
    BeforeDate,
    BeforeOrOnDate,
    AfterDate,
    AfterOrOnDate,
    /// The row is one of those that a measure counts, by its own filters.
    MeasureFilter,
}

/// An operator of queries alone: there are no measures where policies look.
const OF_MEASURES: (&str, Operator) = ("measureFilter", Operator::MeasureFilter);

/// `in` is `equals`, `notIn` is `notEquals`, `onTheDate` is `inDateRange` of one day.
pub const OPERATORS: [(&str, Operator); 23] = [
    ("equals", Operator::Equals),
    ("notEquals", Operator::NotEquals),
    ("in", Operator::Equals),
    ("notIn", Operator::NotEquals),
    ("contains", Operator::Contains),
    ("notContains", Operator::NotContains),
    ("startsWith", Operator::StartsWith),
    ("notStartsWith", Operator::NotStartsWith),
    ("endsWith", Operator::EndsWith),
    ("notEndsWith", Operator::NotEndsWith),
    ("gt", Operator::Gt),
    ("gte", Operator::Gte),
    ("lt", Operator::Lt),
    ("lte", Operator::Lte),
    ("set", Operator::Set),
    ("notSet", Operator::NotSet),
    ("inDateRange", Operator::InDateRange),
    ("notInDateRange", Operator::NotInDateRange),
    ("onTheDate", Operator::InDateRange),
    ("beforeDate", Operator::BeforeDate),
    ("beforeOrOnDate", Operator::BeforeOrOnDate),
    ("afterDate", Operator::AfterDate),
    ("afterOrOnDate", Operator::AfterOrOnDate),
];

impl Operator {
    pub fn named(name: &str) -> Option<Operator> {
        OPERATORS.iter().chain([&OF_MEASURES]).find(|(known, _)| *known == name).map(|(_, operator)| *operator)
    }

    /// How it is written.
    pub fn name(self) -> &'static str {
        OPERATORS.iter().chain([&OF_MEASURES]).find(|(_, operator)| *operator == self).map_or("", |(name, _)| name)
    }

    /// Whether its values are dates.
    pub fn is_of_dates(self) -> bool {
        matches!(
            self,
            Operator::InDateRange
                | Operator::NotInDateRange
                | Operator::BeforeDate
                | Operator::BeforeOrOnDate
                | Operator::AfterDate
                | Operator::AfterOrOnDate
        )
    }

    /// Whether it says something without values.
    pub fn is_unary(self) -> bool {
        matches!(self, Operator::Set | Operator::NotSet | Operator::MeasureFilter)
    }
}
