//! CF time units and calendars, in exact arithmetic.
//!
//! See <https://cfconventions.org/cf-conventions/cf-conventions.html#time-coordinate>. Only what is provably exact is
//! converted: units of a fixed length, between epochs of one calendar, to a result that is a float64.
//!
//! - `standard` and `proleptic_gregorian` are two calendars ([`calendars_equal`]), but a value converts between them where
//!   they agree: both epochs and the value itself at or after 1582-10-15.
//! - An epoch that software reads in different ways is doubtful: it equals only itself, and nothing is converted to
//!   another epoch. So are years before 1 in `standard` and `julian` (with or without a year 0), dates without hyphens
//!   (`19780101`: a year to some, a packed date to UDUNITS), a time zone of one digit (`-6:00`: cftime ignores it, UDUNITS
//!   does not) or without a time, an hour without minutes, and the calendar `none`, which counts no days.

/// A time unit: "*unit* since *epoch*", with a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeUnit {
    /// Length of the unit in nanoseconds; None for months and years, which have no fixed length.
    length: Option<i128>,
    /// Which of the units without a fixed length.
    calendar_unit: Option<char>,
    epoch: Epoch,
    calendar: Calendar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Epoch {
    /// Nanoseconds from the calendar's day 0.
    instant: i128,
    /// For an epoch that can be read in another way too: its nanoseconds of the day and its time zone in seconds, so
    /// that epochs are equal only if they are written with the same numbers.
    doubt: Option<(i128, i128)>,
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
    /// Whether its dates since 1582-10-15 are those of the Gregorian calendar.
    fn is_gregorian(self) -> bool {
        matches!(self, Calendar::Standard | Calendar::Proleptic)
    }

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

impl Calendar {
    /// The date of a day that [`Calendar::days`] counts; None outside the years 0 to 9999.
    fn date(self, days: i64) -> Option<(i64, i64, i64)> {
        let start = |year: i64| self.days(year, 1, 1);
        // The year is near this one, whatever the calendar.
        let guess = days.div_euclid(366).clamp(0, 9999);
        let year = (guess.saturating_sub(1).max(0)..=9999.min(guess + 40))
            .take_while(|y| start(*y).is_some_and(|s| s <= days))
            .last()?;
        let first = |month: i64| self.days(year, month, 1);
        let month = (1..=12).take_while(|m| first(*m).is_some_and(|s| s <= days)).last()?;
        let day = (1..=31).find(|d| self.days(year, month, *d) == Some(days))?;
        Some((year, month, day))
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
const DAY: i128 = 86_400 * SECOND;

/// Length in nanoseconds of a unit by its UDUNITS names.
fn unit_length(name: &str) -> Option<i128> {
    Some(match name {
        "weeks" | "week" => 7 * DAY,
        "days" | "day" | "d" => DAY,
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
        if !matches!(since, "since" | "after" | "from" | "ref" | "@") {
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

    /// `value` of this unit as a number of `to`. None where it is not provably exact: months, years, another calendar, a
    /// doubtful epoch, or a result that is not a float64. A NaN stays one.
    pub fn convert(&self, value: f64, to: &TimeUnit) -> Option<f64> {
        if self == to {
            return Some(value);
        }
        let (from_length, to_length) = (self.length?, to.length?);
        let certain = self.epoch.doubt.is_none() && to.epoch.doubt.is_none() || self.epoch == to.epoch;
        let both_gregorian = self.calendar.is_gregorian() && to.calendar.is_gregorian();
        if !certain || self.calendar != to.calendar && !both_gregorian {
            return None;
        }
        if !value.is_finite() {
            // A missing time stays missing.
            return value.is_nan().then_some(value);
        }
        // value = mantissa · 2^-shift
        let (mantissa, shift) = parts(value)?;
        // nanoseconds · 2^shift
        let scale = 1i128.checked_shl(shift).filter(|_| shift < 120)?;
        let since_epoch = mantissa.checked_mul(from_length)?;
        if self.calendar != to.calendar {
            let switch = i128::from(Calendar::Proleptic.days(1582, 10, 15)?) * DAY;
            let instant = self.epoch.instant.checked_mul(scale)?.checked_add(since_epoch)?;
            if self.epoch.instant.min(to.epoch.instant) < switch || instant < switch.checked_mul(scale)? {
                return None;
            }
        }
        let offset = self.epoch.instant.checked_sub(to.epoch.instant)?.checked_mul(scale)?;
        ratio(since_epoch.checked_add(offset)?, to_length.checked_mul(scale)?)
    }
}

/// A point in time, to be compared with others of one calendar.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Instant {
    /// Whole nanoseconds from the calendar's day 0.
    nanoseconds: i128,
    /// The rest, 0 to 1.
    rest: f64,
}

impl TimeUnit {
    /// When `value` is, so that values of units of different length and epoch can be put in order. None where that is not
    /// certain: months, years, a doubtful epoch, no number.
    fn instant(&self, value: f64) -> Option<Instant> {
        let length = self.length.filter(|_| self.epoch.doubt.is_none())?;
        let (mantissa, shift) = clock_parts(value)?;
        let (scale, since) = (1i128 << shift, mantissa.checked_mul(length)?);
        let nanoseconds = self.epoch.instant.checked_add(since.div_euclid(scale))?;
        Some(Instant { nanoseconds, rest: since.rem_euclid(scale) as f64 / scale as f64 })
    }

    /// When `value` is, comparable with instants of `other`. None where that is not certain: as for
    /// [`TimeUnit::convert`], but the result need not be a float64.
    pub fn instant_as(&self, value: f64, other: &TimeUnit) -> Option<Instant> {
        let instant = self.instant(value)?;
        if self.calendar == other.calendar {
            return Some(instant);
        }
        let switch = i128::from(Calendar::Proleptic.days(1582, 10, 15)?) * DAY;
        let both_gregorian = self.calendar.is_gregorian() && other.calendar.is_gregorian();
        let first = self.epoch.instant.min(other.epoch.instant).min(instant.nanoseconds);
        (both_gregorian && first >= switch).then_some(instant)
    }
}

impl TimeUnit {
    /// The date of a value, `1981-09-30T12:00:00`, with as many digits of the second as it has, up to milliseconds. None
    /// for months and years, a doubtful epoch, the calendar `none`, a value that is no number, or a year beyond 9999.
    pub fn date(&self, value: f64) -> Option<String> {
        let length = self.length.filter(|_| self.epoch.doubt.is_none() && self.calendar != Calendar::None)?;
        let (mantissa, shift) = clock_parts(value)?;
        let scale = 1i128 << shift;
        // Rounded to milliseconds: a float of days does not tell more.
        let unit = SECOND / 1000;
        let since = mantissa.checked_mul(length)?;
        let milliseconds =
            since.checked_mul(2)?.checked_add(scale.checked_mul(unit)?)?.div_euclid(scale.checked_mul(2 * unit)?);
        let start = self.epoch.instant.div_euclid(unit);
        let total = start.checked_add(milliseconds)?;
        let (days, rest) = (total.div_euclid(DAY / unit), total.rem_euclid(DAY / unit));
        let (year, month, day) = self.calendar.date(i64::try_from(days).ok()?)?;
        let (seconds, fraction) = (rest / 1000, rest % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if fraction != 0 {
            text.push_str(format!(".{fraction:03}").trim_end_matches('0'));
        }
        Some(text)
    }
}

/// [`parts`] of a time, with a shift below 100; 0 for what is less than any clock tells. None for no number, and for
/// what does not fit.
fn clock_parts(value: f64) -> Option<(i128, u32)> {
    if !value.is_finite() {
        return None;
    }
    match parts(value) {
        Some((mantissa, shift)) if shift < 100 => Some((mantissa, shift)),
        _ if value.abs() < 1e-20 => Some((0, 0)),
        _ => None,
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

/// Reads `1978-1-1`, `1978-01-01t12:00:00.5z`, `1978-01-01 12:00 +10:00`, `… utc` (in lower case). Less than a
/// nanosecond can't be told.
fn parse_epoch(text: &str, calendar: Calendar) -> Option<Epoch> {
    let text = text.trim();
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let date_end = body.find(|c: char| !(c.is_ascii_digit() || c == '-')).unwrap_or(body.len());
    let (date, rest) = body.split_at(date_end);
    let mut fields = date.split('-').map(|f| f.parse::<i64>().ok().filter(|_| f.len() <= 9));
    let year = fields.next()?? * if negative { -1 } else { 1 };
    let month = fields.next().unwrap_or(Some(1))?;
    let day = fields.next().unwrap_or(Some(1))?;
    if fields.next().is_some() {
        return None;
    }
    let days = calendar.days(year, month, day)?;
    let has_year_zero = !matches!(calendar, Calendar::Standard | Calendar::Julian);
    let mut doubtful =
        calendar == Calendar::None || year < 1 && !has_year_zero || !date.contains('-') && date.len() > 4;

    let rest = rest.strip_prefix('t').unwrap_or(rest).trim_start();
    let time_end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(time_end);
    let mut nanoseconds = 0i128;
    if !time.is_empty() {
        let mut fields = time.split(':');
        let hour = whole(fields.next()?, 23)?;
        doubtful |= !time.contains(':');
        let minute = fields.next().map_or(Some(0), |f| whole(f, 59))?;
        let second = fields.next().map_or(Some(0), parse_seconds)?;
        if fields.next().is_some() {
            return None;
        }
        nanoseconds = (hour * 3600 + minute * 60) * SECOND + second;
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
                None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
                None => (digits, "0"),
            };
            doubtful |= hours.len() < 2 || time.is_empty();
            sign * (whole(hours, 18)? * 3600 + whole(minutes, 59)? * 60)
        }
    };
    let instant = i128::from(days) * DAY + nanoseconds - zone_seconds * SECOND;
    Some(Epoch { instant, doubt: doubtful.then_some((nanoseconds, zone_seconds)) })
}

/// `59.75` as nanoseconds.
fn parse_seconds(text: &str) -> Option<i128> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9}").parse::<i128>().ok()?;
    Some(whole(seconds, 59)? * SECOND + nanoseconds)
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

    /// Calendar arithmetic of cftime, exact arithmetic of Python (tests/data/make_cf_time.py).
    #[test]
    fn as_cftime_counts() {
        let (mut exact, mut inexact) = (0, 0);
        for line in include_str!("../../tests/data/cf_time.tsv").lines().filter(|l| !l.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let [value, from, calendar, to, result] = fields[..] else { panic!("{line}") };
            let got = convert(value.parse().unwrap(), from, to, Some(calendar));
            match result {
                "inexact" => inexact += i32::from(got.is_none()),
                _ => exact += i32::from(got == Some(result.parse().unwrap())),
            }
            assert_eq!(got, result.parse().ok(), "{line}");
        }
        assert!(exact > 500 && inexact > 300, "{exact} {inexact}");
    }

    #[test]
    fn two_gregorian_calendars() {
        let unit = |units, calendar| TimeUnit::parse(units, Some(calendar)).unwrap();
        let standard = unit("days since 1970-01-01", "standard");
        let proleptic = unit("hours since 2000-01-01", "proleptic_gregorian");
        assert!(!standard.same_axis(&unit("days since 1970-01-01", "proleptic_gregorian")));
        assert_eq!(standard.convert(10957.0, &proleptic), Some(0.0));
        assert_eq!(proleptic.convert(0.0, &standard), Some(10957.0));
        // 1582-10-15 is day -141427 (cftime); the day before has another date in each.
        assert_eq!(
            standard.convert(-141_427.0, &unit("days since 1970-01-01", "proleptic_gregorian")),
            Some(-141_427.0)
        );
        assert_eq!(standard.convert(-141_427.5, &unit("days since 1970-01-01", "proleptic_gregorian")), None);
        assert_eq!(standard.convert(0.0, &unit("days since 1500-01-01", "proleptic_gregorian")), None);
        assert_eq!(standard.convert(0.0, &unit("days since 1970-01-01", "julian")), None);
        assert_eq!(standard.convert(0.0, &unit("days since 1970-01-01", "noleap")), None);
    }

    #[test]
    fn doubtful_epochs_equal_only_themselves() {
        let unit = |epoch: &str, calendar| TimeUnit::parse(&format!("days since {epoch}"), Some(calendar)).unwrap();
        let plain = |calendar| unit("2000-01-01", calendar);
        for (epoch, same, calendar) in [
            ("0000-01-01", "0-1-1 00:00:00", "standard"),
            ("-4712-01-01 12:00", "-4712-01-01 12:00:00", "julian"),
            ("20000101", "20000101 UTC", "standard"),
            ("2000-01-01 00:00 -6:00", "2000-1-1 0:00:00 -6", "standard"),
            ("2000-01-01 +10", "2000-1-1 +10:00", "standard"),
            ("2000-01-01 12", "2000-01-01T12", "standard"),
            ("2000-01-02", "2000-1-2", "none"),
        ] {
            let a = unit(epoch, calendar);
            assert!(a.same_axis(&unit(same, calendar)), "{epoch}");
            assert_eq!(a.convert(0.1, &unit(same, calendar)), Some(0.1));
            let hours = TimeUnit::parse(&format!("hours since {same}"), Some(calendar)).unwrap();
            assert_eq!(a.convert(1.5, &hours), Some(36.0), "{epoch}");
            assert_eq!(a.convert(0.0, &plain(calendar)), None, "{epoch}");
            assert_eq!(plain(calendar).convert(0.0, &a), None, "{epoch}");
        }
        let zone = unit("2000-01-01 12:00 -6:00", "standard");
        assert!(!zone.same_axis(&unit("2000-01-01 18:00 -0:00", "standard")));
        assert_eq!(unit("0000-01-01", "noleap").convert(0.0, &plain("noleap")), Some(-730_000.0));
    }

    #[test]
    fn extreme_values() {
        let (a, b) = ("days since 2000-01-01", "microseconds since 1970-01-01 00:00:00.000001");
        for v in [f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 1e300, -1e-300, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(convert(v, a, b, None), None);
            assert_eq!(convert(v, a, "d since 2000-1-1", None), Some(v));
        }
        assert!(convert(f64::NAN, a, b, None).unwrap().is_nan());
        assert_eq!(convert(-0.0, a, b, None), convert(0.0, a, b, None));
        // 2^53 + 1 is no float64, 2^53 + 2 is.
        let second = "seconds since 2000-01-01 00:00:0";
        assert_eq!(convert(9007199254740992.0, &format!("{second}1"), &format!("{second}0"), None), None);
        assert_eq!(
            convert(9007199254740992.0, &format!("{second}2"), &format!("{second}0"), None),
            Some(9007199254740994.0)
        );
        assert!(TimeUnit::parse("days since 999999999-01-01", None).is_some());
        assert!(TimeUnit::parse("days since 9999999999-01-01", None).is_none());
    }

    /// Units of real files: all that cftime reads.
    #[test]
    fn units_of_real_files() {
        for (units, calendar) in [
            ("milliseconds since 2018-07-02 04:33:00.000", None),
            ("seconds since 1900-01-01 00:00:00", Some("360_day")),
            ("seconds since 2000-01-01 00:00:00.0", Some("Gregorian")),
            ("seconds since 2021-10-11T22:36:02Z", Some("gregorian")),
            ("days since 1800-01-01 00:00:0.0", Some("gregorian")),
            ("hours since 1900-1-1 0:0:0", None),
            ("hour since 0000-01-01 00:00:00", None),
            ("days since 1970-01-01 00:00:00 UTC", Some("gregorian")),
            ("days since 1850-01-01 00:00:00", Some("noleap")),
        ] {
            assert!(TimeUnit::parse(units, calendar).is_some(), "{units}");
        }
        // The day before the month; a month by name.
        for units in ["seconds since 1-1-1970", "days since Jan 1, 2000", "day as %Y%m%d.%f"] {
            assert!(TimeUnit::parse(units, None).is_none(), "{units}");
        }
    }

    /// Deterministic mutations: never a panic.
    #[test]
    fn mutations_never_panic() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = move |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % n.max(1) as u64) as usize
        };
        let other = TimeUnit::parse("days since 2000-01-01", None).unwrap();
        let pieces = ["-", "+", ":", ".", " ", "t", "z", "0", "999999999", "é", "since", "1e9", "@", "utc"];
        let mut parsed = 0;
        for _ in 0..40_000 {
            let mut text: Vec<char> = "days since 1978-01-01 12:00:00.5 +10:00".chars().collect();
            for _ in 0..=next(4) {
                let at = next(text.len());
                match next(3) {
                    0 => drop(text.drain(at..(at + next(4)).min(text.len()))),
                    1 => drop(text.splice(at..at, pieces[next(pieces.len())].chars())),
                    _ => text.extend(pieces[next(pieces.len())].chars()),
                }
            }
            let text: String = text.into_iter().collect();
            let calendar = [None, Some("julian"), Some("360_day"), Some("none")][next(4)];
            if let Some(unit) = TimeUnit::parse(&text, calendar) {
                parsed += 1;
                unit.convert(f64::from_bits((next(usize::MAX) as u64) << next(8)), &other);
                assert!(unit.same_axis(&unit));
            }
        }
        assert!(parsed > 1000, "{parsed}");
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
            "days @ 2000-01",
            "days since 2000",
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
            "days since 2000-01-01 24:00",
            "days since 2000-01-01 23:59:60",
            "days since 2000-01-01 00:00:00.0000000001",
            "days since 2000-01-01 +1é",
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

    /// As cftime has them.
    #[test]
    fn dates() {
        for (value, units, calendar, date) in [
            (1339.0, "days since 1978-01-01 12:00:00", None, "1981-09-01T12:00:00"),
            (0.0, "days since 1582-10-04", Some("standard"), "1582-10-04T00:00:00"),
            (1.0, "days since 1582-10-04", Some("standard"), "1582-10-15T00:00:00"),
            (59.0, "days since 2000-01-01", Some("noleap"), "2000-03-01T00:00:00"),
            (59.0, "days since 2001-01-01", Some("all_leap"), "2001-02-29T00:00:00"),
            (59.0, "days since 2000-01-01", Some("360_day"), "2000-02-30T00:00:00"),
            (359.0, "days since 1999-01-01", Some("360_day"), "1999-12-30T00:00:00"),
            (1.5, "hours since 1970-01-01", None, "1970-01-01T01:30:00"),
            (0.25, "seconds since 1970-01-01", None, "1970-01-01T00:00:00.25"),
            (-1.0, "days since 2000-03-01", Some("gregorian"), "2000-02-29T00:00:00"),
            (-1.0, "days since 1900-03-01", Some("proleptic_gregorian"), "1900-02-28T00:00:00"),
            (-1.0, "days since 1900-03-01", Some("julian"), "1900-02-29T00:00:00"),
            // 0.00288 of a second
            (23725.0416667, "days since 1950-01-01", None, "2014-12-16T01:00:00.003"),
            (1.0e6, "days since 0001-01-01", Some("julian"), "2738-11-08T00:00:00"),
            (3_652_058.0, "days since 0001-01-01", Some("proleptic_gregorian"), "9999-12-31T00:00:00"),
        ] {
            let unit = TimeUnit::parse(units, calendar).unwrap();
            assert_eq!(unit.date(value).as_deref(), Some(date), "{value} {units} {calendar:?}");
        }
        let unit = TimeUnit::parse("days since 2000-01-01", None).unwrap();
        assert_eq!([f64::NAN, f64::INFINITY, 1e300, -1e9].map(|v| unit.date(v)), [None, None, None, None]);
        assert_eq!(TimeUnit::parse("months since 2000-01-01", None).unwrap().date(1.0), None);
    }
}
