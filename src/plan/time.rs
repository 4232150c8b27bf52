//! CF time units and calendars, in exact arithmetic.
//!
//! See <https://cfconventions.org/cf-conventions/cf-conventions.html#time-coordinate>. Only what can be converted without
//! rounding is converted: units of a fixed length, between epochs of one calendar.

/// A time unit: "*unit* since *epoch*", with a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnit {
    /// Length of the unit in nanoseconds; None for months and years, which have no fixed length.
    length: Option<i128>,
    /// Which of the units without a fixed length.
    calendar_unit: Option<char>,
    /// Nanoseconds from the calendar's day 0 to the epoch.
    epoch: i128,
    calendar: Calendar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calendar {
    /// Gregorian since 1582-10-15, Julian before.
    Standard,
    Proleptic,
    Julian,
    Days365,
    Days366,
    Days360,
    None,
}

impl Calendar {
    fn parse(name: Option<&str>) -> Option<Calendar> {
        Some(match name.map(|n| n.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "standard" | "gregorian") => Calendar::Standard,
            Some("proleptic_gregorian") => Calendar::Proleptic,
            Some("julian") => Calendar::Julian,
            Some("noleap" | "365_day") => Calendar::Days365,
            Some("all_leap" | "366_day") => Calendar::Days366,
            Some("360_day") => Calendar::Days360,
            Some("none") => Calendar::None,
            Some(_) => return None,
        })
    }

    /// Days from a fixed day of this calendar to a date; None if the date does not exist in it.
    fn days(self, year: i64, month: i64, day: i64) -> Option<i64> {
        let leap = match self {
            Calendar::Proleptic | Calendar::None => gregorian_leap(year),
            Calendar::Standard => {
                if year < 1583 {
                    year.rem_euclid(4) == 0
                } else {
                    gregorian_leap(year)
                }
            }
            Calendar::Julian => year.rem_euclid(4) == 0,
            Calendar::Days365 => false,
            Calendar::Days366 => true,
            Calendar::Days360 => {
                return ((1..=12).contains(&month) && (1..=30).contains(&day))
                    .then(|| year * 360 + (month - 1) * 30 + day - 1);
            }
        };
        let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
        if !(1..=length).contains(&day) {
            return None;
        }
        let in_year: i64 = lengths[..(month - 1) as usize].iter().sum::<i64>() + day - 1;
        let gregorian = |y: i64| y * 365 + (y - 1).div_euclid(4) - (y - 1).div_euclid(100) + (y - 1).div_euclid(400);
        let julian = |y: i64| y * 365 + (y - 1).div_euclid(4);
        Some(match self {
            Calendar::Proleptic | Calendar::None => gregorian(year) + in_year,
            Calendar::Julian => julian(year) + in_year,
            Calendar::Days365 => year * 365 + in_year,
            Calendar::Days366 => year * 366 + in_year,
            Calendar::Standard => match (year, month, day) {
                (1582, 10, 5..=14) => return None,
                // 1582-10-04 (Julian) is the day before 1582-10-15 (Gregorian): two days' difference to count.
                d if d < (1582, 10, 15) => julian(year) + in_year - 2,
                (1582, ..) => gregorian(year) + in_year,
                _ => gregorian(year) + in_year,
            },
            Calendar::Days360 => return None,
        })
    }
}

fn gregorian_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Whether two `calendar` attributes name one calendar; a missing one is `standard`. Names that are not known are equal
/// only if they are the same text.
pub fn calendars_equal(a: Option<&str>, b: Option<&str>) -> bool {
    match (Calendar::parse(a), Calendar::parse(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a == b,
        _ => false,
    }
}

const SECOND: i128 = 1_000_000_000;

/// Length in nanoseconds of a unit by its UDUNITS names.
fn unit_length(name: &str) -> Option<i128> {
    Some(match name {
        "weeks" | "week" => 7 * 86_400 * SECOND,
        "days" | "day" | "d" => 86_400 * SECOND,
        "hours" | "hour" | "hrs" | "hr" | "h" => 3_600 * SECOND,
        "minutes" | "minute" | "mins" | "min" => 60 * SECOND,
        "seconds" | "second" | "secs" | "sec" | "s" => SECOND,
        "milliseconds" | "millisecond" | "millisecs" | "millisec" | "msecs" | "msec" | "ms" => SECOND / 1_000,
        "microseconds" | "microsecond" | "microsecs" | "microsec" | "us" => SECOND / 1_000_000,
        "nanoseconds" | "nanosecond" | "nanosecs" | "nanosec" | "nsecs" | "nsec" | "ns" => 1,
        _ => return None,
    })
}

impl TimeUnit {
    /// Parses `units` ("days since 1978-01-01 12:00:00") and `calendar`. None if it is not a time unit, the calendar is
    /// not known, or the epoch is not a date of it.
    pub fn parse(units: &str, calendar: Option<&str>) -> Option<TimeUnit> {
        let calendar = Calendar::parse(calendar)?;
        let lower = units.trim().to_ascii_lowercase();
        let mut words = lower.split_ascii_whitespace();
        let (unit, since) = (words.next()?, words.next()?);
        if !matches!(since, "since" | "after" | "from" | "ref") {
            return None;
        }
        let length = unit_length(unit);
        let calendar_unit = match unit {
            "months" | "month" | "mon" => Some('m'),
            "years" | "year" | "yr" | "y" | "a" => Some('y'),
            _ => None,
        };
        if length.is_none() && calendar_unit.is_none() {
            return None;
        }
        let rest = words.collect::<Vec<_>>().join(" ");
        let epoch = parse_epoch(&rest, calendar)?;
        Some(TimeUnit { length, calendar_unit, epoch, calendar })
    }

    /// Whether both mean the same instant for every number, though they may be written differently.
    pub fn same_axis(&self, other: &TimeUnit) -> bool {
        self == other
    }

    /// `value` of this unit as a number of `to`. None where it is not exact: months, years, another calendar, or a result
    /// that is not a float64.
    pub fn convert(&self, value: f64, to: &TimeUnit) -> Option<f64> {
        if self.calendar != to.calendar {
            return None;
        }
        let (from_length, to_length) = (self.length?, to.length?);
        if !value.is_finite() {
            // A missing time stays missing.
            return value.is_nan().then_some(value);
        }
        // value = mantissa · 2^-shift
        let (mantissa, shift) = parts(value)?;
        // nanoseconds · 2^shift
        let scale = 1i128.checked_shl(shift).filter(|_| shift < 120)?;
        let offset = self.epoch.checked_sub(to.epoch)?.checked_mul(scale)?;
        let total = mantissa.checked_mul(from_length)?.checked_add(offset)?;
        ratio(total, to_length.checked_mul(scale)?)
    }
}

/// `v` as an integer times 2^-shift, with the least shift.
fn parts(v: f64) -> Option<(i128, u32)> {
    if v == 0.0 {
        return Some((0, 0));
    }
    let bits = v.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = (bits & ((1 << 52) - 1)) as i128;
    let (mut mantissa, mut power) =
        if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent - 1075) };
    let zeros = mantissa.trailing_zeros() as i32;
    mantissa >>= zeros;
    power += zeros;
    if v < 0.0 {
        mantissa = -mantissa;
    }
    match power {
        0..=60 => Some((mantissa.checked_mul(1i128 << power)?, 0)),
        p if (-100..0).contains(&p) => Some((mantissa, (-p) as u32)),
        _ => None,
    }
}

/// `a / b`, if it is exactly a float64.
fn ratio(a: i128, b: i128) -> Option<f64> {
    let divisor = gcd(a.unsigned_abs(), b.unsigned_abs());
    if divisor == 0 {
        return None;
    }
    let divisor = i128::try_from(divisor).ok()?;
    let (a, b) = (a / divisor, b / divisor);
    // A float64 is an integer of at most 53 bits times a power of two.
    if !b.unsigned_abs().is_power_of_two()
        || a.unsigned_abs() > (1 << 53) && a.unsigned_abs() >> a.trailing_zeros() > (1 << 53)
    {
        return None;
    }
    Some(a as f64 / b as f64)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Nanoseconds from the calendar's day 0: `1978-1-1`, `1978-01-01T12:00:00.5Z`, `1978-01-01 12:00 +10:00`, `… UTC`.
fn parse_epoch(text: &str, calendar: Calendar) -> Option<i128> {
    let text = text.trim();
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let date_end = body.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(body.len());
    let (date, mut rest) = body.split_at(date_end);
    let mut fields = date.split('-').map(|f| f.parse::<i64>().ok().filter(|_| f.len() <= 9));
    let year = fields.next()?? * if negative { -1 } else { 1 };
    let month = fields.next().unwrap_or(Some(1))?;
    let day = fields.next().unwrap_or(Some(1))?;
    if fields.next().is_some() {
        return None;
    }
    let days = calendar.days(year, month, day)?;
    rest = rest.trim_start_matches(['t', ' ']);
    let time_end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(time_end);
    let mut nanoseconds = 0i128;
    if !time.is_empty() {
        let mut fields = time.split(':');
        let hour: i128 = whole(fields.next()?, 24)?;
        let minute: i128 = fields.next().map_or(Some(0), |f| whole(f, 59))?;
        nanoseconds = (hour * 3600 + minute * 60) * SECOND;
        if let Some(seconds) = fields.next() {
            let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            nanoseconds += whole(seconds, 60)? * SECOND;
            if !fraction.is_empty() {
                let used = &fraction[..fraction.len().min(9)];
                if fraction[used.len()..].bytes().any(|b| b != b'0') || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                nanoseconds += used.parse::<i128>().ok()? * 10i128.pow(9 - used.len() as u32);
            }
        }
        if fields.next().is_some() {
            return None;
        }
    }
    let zone = zone.trim();
    let zone_seconds = match zone {
        "" | "z" | "utc" | "gmt" => 0,
        _ => {
            let (sign, digits) = match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
                (Some(d), _) => (1, d),
                (_, Some(d)) => (-1, d),
                _ => return None,
            };
            let (hours, minutes) = match digits.split_once(':') {
                Some((h, m)) => (h, m),
                None if digits.len() == 4 => digits.split_at(2),
                None => (digits, "0"),
            };
            sign * (whole(hours, 18)? * 3600 + whole(minutes, 59)? * 60)
        }
    };
    Some(i128::from(days) * 86_400 * SECOND + nanoseconds - zone_seconds * SECOND)
}

fn whole(text: &str, max: i128) -> Option<i128> {
    if text.is_empty() || text.len() > 2 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|v| *v <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(value: f64, from: &str, to: &str, calendar: Option<&str>) -> Option<f64> {
        TimeUnit::parse(from, calendar).unwrap().convert(value, &TimeUnit::parse(to, calendar).unwrap())
    }

    #[test]
    fn exact_conversions() {
        let day = "days since 1978-01-01 12:00:00";
        assert_eq!(convert(15537.0, day, "days since 1978-01-01", None), Some(15537.5));
        assert_eq!(convert(0.0, "days since 1998-02-16", "days since 1998-01-16", None), Some(31.0));
        assert_eq!(convert(1.0, "hours since 1998-01-16", "days since 1998-01-16", None), None, "1/24 is not exact");
        assert_eq!(convert(6.0, "hours since 2000-01-02", "days since 2000-01-01", None), Some(1.25));
        assert_eq!(convert(1.5, "days since 2000-01-01", "seconds since 1999-12-31T23:59:00Z", None), Some(129_660.0));
        assert_eq!(convert(0.1, "days since 2000-01-01", "days since 2000-01-01", None), Some(0.1));
        assert_eq!(convert(0.0, "hours since 2000-01-01 10:00 +10:00", "hours since 2000-01-01", None), Some(0.0));
        assert_eq!(convert(1.0, "months since 2000-01-01", "days since 2000-01-01", None), None);
    }

    /// Days between two epochs, from cftime 1.6 (`date2num(b, "days since a", calendar)`).
    #[test]
    fn calendars() {
        for (calendar, a, b, days) in [
            ("standard", "1582-10-04", "1582-10-15", 1.0),
            ("standard", "0001-01-01", "1970-01-01", 719_164.0),
            ("standard", "1500-02-28", "1500-03-01", 2.0),
            ("proleptic_gregorian", "1582-10-04", "1582-10-15", 11.0),
            ("proleptic_gregorian", "0001-01-01", "1970-01-01", 719_162.0),
            ("julian", "1900-02-28", "1900-03-01", 2.0),
            ("noleap", "2000-02-28", "2000-03-01", 1.0),
            ("365_day", "1900-01-01", "2000-01-01", 36_500.0),
            ("all_leap", "2001-02-28", "2001-03-01", 2.0),
            ("360_day", "2000-01-30", "2000-02-01", 1.0),
            ("360_day", "1900-01-01", "2000-01-01", 36_000.0),
        ] {
            let to = format!("days since {a}");
            assert_eq!(convert(0.0, &format!("days since {b}"), &to, Some(calendar)), Some(days), "{calendar} {a} {b}");
        }
        assert!(TimeUnit::parse("days since 1582-10-10", None).is_none());
        assert!(TimeUnit::parse("days since 2000-02-30", Some("360_day")).is_some());
        assert!(TimeUnit::parse("days since 2000-02-30", Some("noleap")).is_none());
    }

    #[test]
    fn spellings() {
        let a = TimeUnit::parse("days since 2000-1-1", None).unwrap();
        for text in [
            "day since 2000-01-01 00:00:00",
            "Days since 2000-01-01T00:00:00Z",
            "d since 2000-01-01 0:0:0.0 UTC",
            "days since 2000-01-01 00:00:00 +00:00",
            "days since 2000-01-01 10:00:00 +1000",
        ] {
            assert!(a.same_axis(&TimeUnit::parse(text, Some("gregorian")).unwrap()), "{text}");
        }
        for text in [
            "days",
            "metres since 2000-01-01",
            "days since",
            "days since x",
            "degrees_north",
            "1",
            "days since 2000-01-01 25:00",
            "days since 2000-01-01 foo",
            "days since é",
        ] {
            assert!(TimeUnit::parse(text, None).is_none(), "{text}");
        }
        assert!(!calendars_equal(Some("noleap"), None));
        assert!(calendars_equal(Some("noleap"), Some("365_day")));
        assert!(calendars_equal(Some("Gregorian"), Some("standard")));
        assert!(!calendars_equal(Some("custom"), None));
        assert!(calendars_equal(Some("custom"), Some("custom")));
    }
}
