//! Part of an array by name: `/sst:29:0` by indices of the first dimensions, `/sst:time=1981-09-30` by the value of a
//! dimension's coordinate.

use crate::model::ArrayDesc;
use crate::plan::time::TimeUnit;
use crate::read::{Coordinate, Reader};
use crate::store::Store;
use crate::{Error, Result};

/// An array, and for each of its dimensions the index that was chosen, if any.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    /// Number of the array.
    pub array: usize,
    /// By dimension.
    pub indices: Vec<Option<u64>>,
}

/// The array that `name` means (the longest that fits), and what is chosen after it: indices fix the first dimensions
/// that are not named, `DIMENSION=VALUE` the named one.
///
/// # Errors
/// [`Error::Invalid`] if there is no such array, dimension or value; those of reading a coordinate.
pub fn select(reader: &Reader, name: &str) -> Result<Selection> {
    let store = reader.store();
    let (array, rest) = find(store, name.strip_prefix('/').unwrap_or(name))?;
    let desc = &store.arrays()[array];
    let rank = desc.dims.len();
    let bad = |what: String| Error::Invalid(format!("{}: {what}", store.path()));
    let mut indices = vec![None; rank];
    let mut positional = Vec::new();
    for part in parts(rest) {
        if let Some((dimension, value)) = part.split_once('=') {
            let axis = desc.dims.iter().position(|d| is_named(d, dimension));
            let Some(axis) = axis.filter(|a| indices[*a].is_none()) else {
                let dims: Vec<&str> = desc.dims.iter().map(|d| d.rsplit('/').next().unwrap_or(d)).collect();
                let what = format!("\":{part}\" names no dimension of the array \"/{}\"", desc.name);
                return Err(bad(format!("{what} once; it has: {}", dims.join(", "))));
            };
            let index = by_value(reader, desc, axis, value).map_err(|e| match e {
                Error::Invalid(what) => bad(format!("\":{part}\" after the array \"/{}\": {what}", desc.name)),
                e => e,
            })?;
            indices[axis] = Some(index);
        } else {
            let index = part.parse::<u64>().ok();
            let what = || {
                let what = format!("\"{rest}\" after the array \"/{}\" of {rank} dimensions is not", desc.name);
                bad(format!("{what} a list of indices like :0 or :0:1, or of values like :time=2000-01-31"))
            };
            positional.push(index.ok_or_else(what)?);
        }
    }
    let mut free = indices.iter_mut().filter(|i| i.is_none());
    for index in &positional {
        let slot = free.next().ok_or_else(|| {
            bad(format!("\"{rest}\" chooses more dimensions than the {rank} of the array \"/{}\"", desc.name))
        })?;
        *slot = Some(*index);
    }
    let shape = desc.shape.as_deref().unwrap_or_default();
    for (axis, size) in shape.iter().enumerate() {
        if let Some(index) = indices[axis].filter(|i| i >= size) {
            let what = format!("index {index} is outside the dimension {} of {size}", desc.dims[axis]);
            return Err(bad(format!("array \"/{}\": {what}", desc.name)));
        }
    }
    Ok(Selection { array, indices })
}

/// The longest array name that `name` begins with, up to its end or a colon; and what follows.
fn find<'a>(store: &Store, name: &'a str) -> Result<(usize, &'a str)> {
    let fits = |array: &str| name.strip_prefix(array).filter(|rest| rest.is_empty() || rest.starts_with(':'));
    let arrays = store.arrays().iter().enumerate();
    let found = arrays.filter_map(|(i, a)| Some((a.name.len(), i, fits(&a.name)?))).max_by_key(|(length, ..)| *length);
    if let Some((_, array, rest)) = found {
        return Ok((array, rest));
    }
    if let Some((_, why)) = store.broken().iter().find(|(n, _)| fits(n).is_some()) {
        return Err(Error::Unsupported { path: store.path().into(), array: name.into(), what: why.clone() });
    }
    let list: Vec<String> = store.arrays().iter().map(|a| format!("/{}", a.name)).collect();
    let what = format!("there is no array \"/{name}\"; there are: {}", list.join(", "));
    Err(Error::Invalid(format!("{}: {what}", store.path())))
}

/// Splits `:29:time=1981-09-30T12:30:0` at its colons, but not at those of a time of day: they are followed by two digits
/// that end there.
fn parts(rest: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in rest.strip_prefix(':').map(|r| r.split(':')).into_iter().flatten() {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let ends = matches!(part.as_bytes().get(digits), None | Some(b'.' | b'Z' | b'z'));
        match parts.last_mut() {
            Some(last) if digits == 2 && ends && in_time_of_day(last) => {
                last.push(':');
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

/// Whether `part` is a named value that ends in a time of day without seconds.
fn in_time_of_day(part: &str) -> bool {
    let time = part.split_once('=').and_then(|(_, value)| value.split_once(['T', 't', ' ']));
    time.is_some_and(|(_, time)| time.matches(':').count() < 2 && time.ends_with(|c: char| c.is_ascii_digit()))
}

fn is_named(dimension: &str, name: &str) -> bool {
    let name = name.strip_prefix('/').unwrap_or(name);
    dimension == name || dimension.rsplit('/').next() == Some(name)
}

/// The index at which the coordinate of a dimension has a value.
fn by_value(reader: &Reader, desc: &ArrayDesc, axis: usize, value: &str) -> Result<u64> {
    let coordinate = reader.coordinate(&desc.dims[axis])?;
    let Coordinate { array, values, time } =
        coordinate.ok_or_else(|| Error::Invalid("the dimension has no coordinate: give an index".into()))?;
    let calendar = reader.store().arrays()[array].attrs.text("calendar");
    // A date has a hyphen that is no sign: of the number or of its exponent.
    let is_date = value.char_indices().any(|(i, c)| c == '-' && i > 0 && value.as_bytes()[i - 1].is_ascii_digit());
    match time {
        Some(unit) if is_date => by_date(&values, &unit, calendar, value),
        _ => by_number(&values, value),
    }
}

fn by_number(values: &[f64], text: &str) -> Result<u64> {
    let wanted: f64 = text.parse().map_err(|_| Error::Invalid("the value is not a number".into()))?;
    // Also as the value that a single-precision coordinate has for this number.
    let same = |v: f64| v == wanted || v as f32 == wanted as f32;
    let exact = values.iter().position(|v| *v == wanted).or_else(|| values.iter().position(|v| same(*v)));
    if let Some(index) = exact {
        return Ok(index as u64);
    }
    let near = values.iter().copied().min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs()));
    let near = near.map_or_else(String::new, |v| format!("; the nearest is {v}"));
    Err(Error::Invalid(format!("the coordinate has no such value{near}")))
}

/// The one value within the month, day, minute or second that `text` tells.
fn by_date(values: &[f64], unit: &TimeUnit, calendar: Option<&str>, text: &str) -> Result<u64> {
    let bad = |what: &str| Error::Invalid(what.to_owned());
    let text = text.replacen(['T', 't'], " ", 1);
    let text = text.trim_end_matches(['Z', 'z']);
    let (date, time) = text.split_once(' ').unwrap_or((text, ""));
    let (first, length) = match (date.matches('-').count(), time.matches(':').count()) {
        (1, 0) if time.is_empty() => (format!("{date}-01"), None),
        (2, 0) if time.is_empty() => (date.to_owned(), Some(86_400.0)),
        (2, 1) => (text.to_owned(), Some(60.0)),
        (2, 2) => (text.to_owned(), Some(1.0)),
        _ => return Err(bad("a time is like 2000-01, 2000-01-31, 2000-01-31T12:00 or 2000-01-31T12:00:00")),
    };
    // Seconds since the wanted time; None for units without a fixed length, and for doubtful epochs.
    let seconds = TimeUnit::parse(&format!("seconds since {first}"), calendar);
    let seconds = seconds.ok_or_else(|| bad("this is no date of the coordinate's calendar"))?;
    let unclear = "the coordinate's unit does not tell dates exactly: give an index, or the value as a number";
    let start = unit.convert(0.0, &seconds).ok_or_else(|| bad(unclear))?;
    let step = unit.convert(1.0, &seconds).ok_or_else(|| bad(unclear))? - start;
    let length = match length {
        Some(length) => length,
        None => {
            let (year, month) = date.split_once('-').unwrap_or((date, "1"));
            let numbers = year.parse::<i64>().ok().zip(month.parse::<u8>().ok());
            let (year, month) = numbers.ok_or_else(|| bad("a month is like 2000-01"))?;
            let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            let next = TimeUnit::parse(&format!("seconds since {year}-{month}-01"), calendar);
            next.and_then(|next| next.convert(0.0, &seconds)).ok_or_else(|| bad(unclear))?
        }
    };
    // To the millisecond: minutes are not whole fractions of a day.
    let at = |v: f64| ((start + v * step) * 1000.0).round() / 1000.0;
    let found: Vec<usize> = (0..values.len()).filter(|i| (0.0..length).contains(&at(values[*i]))).collect();
    match found[..] {
        [index] => Ok(index as u64),
        [] => Err(bad("the coordinate has no such time")),
        [first, .., last] => {
            let what = format!("the coordinate has {} such times (indices {first} to {last})", found.len());
            Err(bad(&format!("{what}: tell the time of day, or give an index")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting() {
        let of = |text: &str| parts(text);
        assert_eq!(of(""), Vec::<String>::new());
        assert_eq!(of(":29:0"), ["29", "0"]);
        assert_eq!(of(":29:00"), ["29", "00"]);
        assert_eq!(of(":time=1981-09-30:0"), ["time=1981-09-30", "0"]);
        assert_eq!(of(":time=1981-09-30T12:30:0"), ["time=1981-09-30T12:30", "0"]);
        assert_eq!(of(":time=1981-09-30T12:30:15.5:11"), ["time=1981-09-30T12:30:15.5", "11"]);
        assert_eq!(of(":time=1981-09-30T12:30Z:11"), ["time=1981-09-30T12:30Z", "11"]);
        assert_eq!(of(":0:"), ["0", ""]);
    }

    #[test]
    fn numbers() {
        let values = [f64::from(0.1f32), 0.2, -5.0];
        assert_eq!(by_number(&values, "0.1").ok(), Some(0));
        assert_eq!(by_number(&values, "-5").ok(), Some(2));
        let error = by_number(&values, "0.3").map_err(|e| e.to_string());
        assert!(error.is_err_and(|e| e.contains("0.2")));
        assert!(by_number(&values, "x").is_err());
        assert!(by_number(&[], "1").is_err());
    }

    #[test]
    fn dates() {
        let unit = |text: &str, calendar| TimeUnit::parse(text, calendar).unwrap();
        let days = unit("days since 1978-01-01 12:00:00", None);
        // 1981-09-01 is 1339 days after 1978-01-01.
        let values: Vec<f64> = (0..61).map(|i| 1339.0 + f64::from(i)).collect();
        let of = |text: &str| by_date(&values, &days, None, text).map_err(|e| e.to_string());
        assert_eq!(of("1981-09-01"), Ok(0));
        assert_eq!(of("1981-09-30"), Ok(29));
        assert_eq!(of("1981-09-30T12:00"), Ok(29));
        assert_eq!(of("1981-09-30T12:00:00Z"), Ok(29));
        assert!(of("1981-09-30T12:01").is_err());
        assert!(of("1981-08-31").is_err());
        assert!(of("1981-09-31").is_err());
        assert!(of("1981-09").is_err_and(|e| e.contains("30 such times (indices 0 to 29)")));
        // A minute is not a whole fraction of a day.
        assert_eq!(by_date(&[0.0, 7.0 / 1440.0], &days, None, "1978-01-01T12:07").ok(), Some(1));
        let months = unit("months since 2000-01-01", None);
        assert!(by_date(&[0.0, 1.0], &months, None, "2000-02-01").is_err());
        let noleap = unit("days since 2000-02-28", Some("noleap"));
        assert_eq!(by_date(&[0.0, 1.0], &noleap, Some("noleap"), "2000-03").ok(), Some(1));
        assert!(by_date(&[0.0, 1.0], &noleap, Some("noleap"), "2000-02-29").is_err());
    }
}
