//! By what the literals of a definition are read, as texts.

use pgrepr::options::{DateStyle, IntervalStyle, Locale};
use pgrepr::timezone::TimeZone;

/// The time zone, the date style and the interval style; the latter two are empty for what is usual.
pub(super) fn encode_locale(locale: Locale) -> [String; 3] {
    let date_style = if locale.date == DateStyle::default() { String::new() } else { locale.date.name() };
    let interval_style = if locale.interval == IntervalStyle::default() { "" } else { locale.interval.name() };
    [locale.time_zone.name(), date_style, interval_style.to_owned()]
}

/// The inverse of [`encode_locale`].
pub(super) fn decode_locale([time_zone, date_style, interval_style]: [&str; 3]) -> Result<Locale, &'static str> {
    let time_zone = match TimeZone::parse(time_zone).map_err(|_| "a time zone is unknown")? {
        // Before format 4 an offset had no name, and counted eastward.
        TimeZone::Fixed(east) if time_zone.starts_with(['+', '-']) => TimeZone::Fixed(-east),
        zone => zone,
    };
    let mut locale = Locale { time_zone, ..Locale::default() };
    if !date_style.is_empty() {
        locale.date = locale.date.changed(date_style, locale.date).map_err(|_| "a DateStyle is unknown")?;
    }
    if !interval_style.is_empty() {
        locale.interval = IntervalStyle::parse(interval_style).map_err(|_| "an IntervalStyle is unknown")?;
    }
    Ok(locale)
}

#[cfg(test)]
mod tests {
    use super::{decode_locale, encode_locale};
    use pgrepr::options::{DateForm, DateOrder, DateStyle, IntervalStyle, Locale};
    use pgrepr::timezone::TimeZone;

    #[test]
    fn locales_are_read_back() {
        let zones =
            ["UTC", "Europe/Berlin", "5.5", "-3", "<+02>-02"].map(|zone| TimeZone::parse(zone).expect("a zone"));
        for time_zone in zones {
            for form in [DateForm::Iso, DateForm::Sql, DateForm::Postgres, DateForm::German] {
                for order in [DateOrder::Mdy, DateOrder::Dmy, DateOrder::Ymd] {
                    for interval in IntervalStyle::NAMES.iter().map(|name| IntervalStyle::parse(name).expect(name)) {
                        let date = DateStyle { form, order };
                        let locale = Locale { time_zone, date, interval, ..Locale::default() };
                        let [zone, date_style, interval_style] = encode_locale(locale);
                        assert_eq!(decode_locale([&zone, &date_style, &interval_style]), Ok(locale));
                    }
                }
            }
        }
    }

    #[test]
    fn offsets_of_older_formats_count_eastward() {
        let zone = |text: &str| decode_locale([text, "", ""]).map(|locale| locale.time_zone);
        assert_eq!(zone("+05:30"), Ok(TimeZone::Fixed(19_800)));
        assert_eq!(zone("-07:00"), Ok(TimeZone::Fixed(-25_200)));
        assert!(zone("Mars/Phobos").is_err());
    }
}
