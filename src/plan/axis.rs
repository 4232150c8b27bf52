//! Coordinate values of one dimension of the whole, put together from those of the sources.

use super::agree::{attribute_text, same_value};
use super::time::{Instant, TimeUnit, calendars_equal};
use crate::model::{Affine, Attributes, ByteOrder, DType, Kind, float_from_le, float_to_le, swap_in_place};
use crate::{Error, Result};
use std::sync::Arc;

/// Coordinate values of one source: an array of one dimension, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordValues {
    /// Name in the source.
    pub name: String,
    /// Type of `values`.
    pub dtype: DType,
    /// CF attributes.
    pub attrs: Attributes,
    /// C-order bytes, in the byte order of `dtype`.
    pub values: Vec<u8>,
}

impl CoordValues {
    /// Number of values.
    pub fn len(&self) -> u64 {
        (self.values.len() / self.dtype.size.max(1)) as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// A coordinate value as what orders sources.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Where it lies; None for a text.
    pub place: Option<Place>,
    /// The value with its unit, for messages.
    pub text: String,
}

/// Where a coordinate value lies among those of other sources.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A whole number, in the unit that all have.
    Whole(i128),
    /// A number, in the unit that all have.
    Number(f64),
    /// A time.
    Time(Instant),
}

impl Rank {
    /// The order of two ranks that were made with one base.
    pub fn compare(&self, other: &Rank) -> std::cmp::Ordering {
        use std::cmp::Ordering::Equal;
        let float = |p: &Place| match p {
            Place::Whole(v) => *v as f64,
            Place::Number(v) => *v,
            Place::Time(_) => f64::NAN,
        };
        match (&self.place, &other.place) {
            (Some(Place::Whole(a)), Some(Place::Whole(b))) => a.cmp(b),
            (Some(Place::Time(a)), Some(Place::Time(b))) => a.partial_cmp(b).unwrap_or(Equal),
            (Some(a), Some(b)) => float(a).partial_cmp(&float(b)).unwrap_or(Equal),
            _ => Equal,
        }
    }
}

impl CoordValues {
    /// The values as ranks, to be compared with those of other sources that have the same `base`.
    ///
    /// # Errors
    /// What prevents it, as the beginning of a sentence that ends with the base's source.
    pub fn ranks(&self, base: &CoordValues) -> Result<Vec<Rank>, String> {
        let unit =
            |c: &CoordValues| TimeUnit::parse(c.attrs.text("units").unwrap_or_default(), c.attrs.text("calendar"));
        let (ours, theirs) = (unit(self), unit(base));
        let same_text = self.attrs.text("units") == base.attrs.text("units")
            && calendars_equal(self.attrs.text("calendar"), base.attrs.text("calendar"));
        if !same_text && (ours.is_none() || theirs.is_none()) {
            return Err(format!("its unit is {}, but {}", unit_text(&self.attrs), unit_text(&base.attrs)));
        }
        // A time with certain epoch and length is compared as a time by every source, so that all are comparable.
        let as_time = |item: &Item| match (ours, theirs) {
            (Some(ours), Some(theirs)) => number(item).and_then(|v| ours.instant_as(v, &theirs)),
            _ => None,
        };
        let units = self.attrs.text("units").map(|u| format!(" {u}")).unwrap_or_default();
        decode(&self.dtype, &self.values)
            .iter()
            .map(|item| {
                let text = format!("{item}{units}");
                let place = match item {
                    Item::Text(_) => None,
                    Item::Float(v) if v.is_nan() => return Err(format!("its value {item} has no place among those")),
                    _ => Some(match (as_time(item), item) {
                        (Some(time), _) => Place::Time(time),
                        (None, Item::Int(v)) if same_text => Place::Whole(*v),
                        (None, Item::Float(v)) if same_text => Place::Number(*v),
                        _ => {
                            return Err(format!(
                                "its unit is {}, which can't be compared for certain with {}",
                                unit_text(&self.attrs),
                                unit_text(&base.attrs)
                            ));
                        }
                    }),
                };
                Ok(Rank { place, text })
            })
            .collect()
    }
}

/// One value, exact.
#[derive(Clone, Debug)]
enum Item {
    Int(i128),
    Float(f64),
    Text(Box<[u8]>),
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        match (self, other) {
            (Item::Int(a), Item::Int(b)) => a == b,
            (Item::Float(a), Item::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Item::Text(a), Item::Text(b)) => a == b,
            _ => false,
        }
    }
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Item::Int(v) => write!(f, "{v}"),
            Item::Float(v) => write!(f, "{v}"),
            Item::Text(t) => write!(f, "\"{}\"", String::from_utf8_lossy(t)),
        }
    }
}

/// The largest integer below which every integer is a float64.
const EXACT: i128 = 1 << 53;

fn decode(dtype: &DType, bytes: &[u8]) -> Vec<Item> {
    let size = dtype.size.max(1);
    bytes
        .chunks_exact(size)
        .map(|element| {
            let mut b = element.to_vec();
            if dtype.order == ByteOrder::Big {
                swap_in_place(&mut b, dtype.swap_size());
            }
            match dtype.kind {
                Kind::Float => Item::Float(float_from_le(&b)),
                Kind::Int | Kind::UInt | Kind::Bool => {
                    let negative = dtype.kind == Kind::Int && b[b.len() - 1] & 0x80 != 0;
                    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
                    wide[..b.len()].copy_from_slice(&b);
                    Item::Int(i128::from_le_bytes(wide))
                }
                _ => Item::Text(b.into()),
            }
        })
        .collect()
}

/// Little-endian bytes of `item` as a `dtype`; None if it is not exactly one.
fn encode(dtype: &DType, item: &Item) -> Option<Vec<u8>> {
    match (dtype.kind, item) {
        (Kind::Float, Item::Float(v)) => {
            let bytes = float_to_le(*v, dtype.size);
            let back = float_from_le(&bytes);
            (back == *v || (back.is_nan() && v.is_nan())).then_some(bytes)
        }
        (Kind::Float, Item::Int(v)) if v.abs() <= EXACT => encode(dtype, &Item::Float(*v as f64)),
        (Kind::Int | Kind::UInt | Kind::Bool, Item::Float(v)) if v.fract() == 0.0 && v.abs() <= EXACT as f64 => {
            encode(dtype, &Item::Int(*v as i128))
        }
        (Kind::Int | Kind::UInt | Kind::Bool, Item::Int(v)) => {
            let bits = dtype.size * 8;
            let range =
                if dtype.kind == Kind::Int { -(1i128 << (bits - 1))..1i128 << (bits - 1) } else { 0..1i128 << bits };
            range.contains(v).then(|| v.to_le_bytes()[..dtype.size].to_vec())
        }
        (Kind::Bytes, Item::Text(t)) => {
            let mut b = t.to_vec();
            let used = b.iter().rposition(|c| *c != 0).map_or(0, |i| i + 1);
            if used > dtype.size {
                return None;
            }
            b.resize(dtype.size, 0);
            Some(b)
        }
        _ => None,
    }
}

/// The type that holds the values of both: the same, or float64, or the longer string.
fn common(a: &DType, b: &DType) -> Option<DType> {
    let (a, b) = (a.with_order(ByteOrder::Little), b.with_order(ByteOrder::Little));
    if a == b {
        return Some(a);
    }
    match (a.kind, b.kind) {
        (Kind::Bytes, Kind::Bytes) => Some(DType::new(Kind::Bytes, a.size.max(b.size), ByteOrder::NATIVE)),
        _ if a.is_numeric() && b.is_numeric() => Some(DType::new(Kind::Float, 8, ByteOrder::Little)),
        _ => None,
    }
}

/// Coordinate values along one dimension, with who said so.
#[derive(Debug)]
pub struct Axis {
    name: String,
    /// What the plan says the raw values are, where it says it: checked, and used where no source says it.
    expected: Option<Vec<f64>>,
    items: Vec<Option<Item>>,
    /// Source of each value, 1 + its number; 0: none.
    by: Vec<u32>,
    first: Option<First>,
    last: Option<(Arc<CoordValues>, u64, u64, u64)>,
}

#[derive(Debug)]
struct First {
    source: u32,
    dtype: DType,
    attrs: Attributes,
    time: Option<TimeUnit>,
}

/// What a source adds to an [`Axis`], checked.
#[derive(Debug)]
pub struct Addition {
    dtype: DType,
    items: Vec<Item>,
    dest: u64,
    coord: Arc<CoordValues>,
    from: u64,
    source: u32,
}

/// The values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisValues {
    /// Type.
    pub dtype: DType,
    /// Attributes of the first source.
    pub attrs: Attributes,
    /// Little-endian bytes.
    pub values: Vec<u8>,
}

fn unit_text(attrs: &Attributes) -> String {
    let calendar = attrs.text("calendar").map(|c| format!(" (calendar {c})")).unwrap_or_default();
    format!("{}{calendar}", attribute_text(attrs.get("units")))
}

impl Axis {
    /// An axis of `size` values, called `name`.
    pub fn new(name: &str, size: usize, expected: Option<Vec<f64>>) -> Axis {
        Axis { name: name.to_owned(), expected, items: vec![None; size], by: vec![0; size], first: None, last: None }
    }

    /// Name of the coordinate variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a source gave values.
    pub fn is_known(&self) -> bool {
        self.first.is_some()
    }

    /// Checks values `from .. from + count` of `coord`, which lie at `dest` on this axis. None: nothing new.
    /// `known` values come from an earlier plan (whose unit they have), not from the source itself.
    ///
    /// # Errors
    /// [`Error::Plan`] where they contradict the plan or another source, with both values.
    #[allow(clippy::too_many_arguments)] // one placement of one source along one axis
    pub fn check(
        &self,
        coord: &Arc<CoordValues>,
        (from, count, dest): (u64, u64, u64),
        source: u32,
        known: bool,
        names: &[String],
    ) -> Result<Option<Addition>> {
        if self.last.as_ref().is_some_and(|l| Arc::ptr_eq(&l.0, coord) && (l.1, l.2, l.3) == (from, count, dest)) {
            return Ok(None);
        }
        let who = |s: u32| names.get(s as usize).map_or("the store", String::as_str);
        let me = who(source);
        let problem = |what: String| Error::Plan(format!("{me}: coordinate \"{}\": {what}", self.name));
        let bad = |what: String| Err(problem(what));
        let size = coord.dtype.size.max(1) as u64;
        let bytes = coord.values.get((from * size) as usize..((from + count) * size) as usize);
        let Some(bytes) = bytes.filter(|_| dest + count <= self.items.len() as u64) else {
            return bad(format!(
                "it has {} values, but the plan wants {count} from {from}",
                coord.values.len() as u64 / size
            ));
        };
        let raw = decode(&coord.dtype, bytes);
        let Some(first) = &self.first else {
            if !known {
                self.check_expected(&raw, &raw, dest).map_err(problem)?;
            }
            return Ok(Some(Addition {
                dtype: coord.dtype.with_order(ByteOrder::Little),
                items: raw,
                dest,
                coord: Arc::clone(coord),
                from,
                source,
            }));
        };
        let items = self.convert(first, coord, raw.clone(), who(first.source)).map_err(problem)?;
        let Some(mut dtype) = common(&first.dtype, &coord.dtype) else {
            return bad(format!(
                "its type is {}, but {} in {}: no type holds both",
                coord.dtype,
                first.dtype,
                who(first.source)
            ));
        };
        if items.iter().any(|i| encode(&dtype, i).is_none()) {
            dtype = common(&dtype, &DType::new(Kind::Float, 8, ByteOrder::Little)).unwrap_or(dtype);
        }
        if let Some(item) = items.iter().find(|i| encode(&dtype, i).is_none()) {
            return bad(format!("its value {item} is not exactly a {dtype}, which the sources have in common"));
        }
        if dtype != first.dtype
            && let Some((i, item)) =
                self.items.iter().enumerate().find(|(_, i)| i.as_ref().is_some_and(|i| encode(&dtype, i).is_none()))
        {
            return bad(format!(
                "its type is {}, and value {i} of {}, {}, is not exactly a {dtype}",
                coord.dtype,
                who(self.by[i].wrapping_sub(1)),
                item.as_ref().map(ToString::to_string).unwrap_or_default()
            ));
        }
        for (i, item) in items.iter().enumerate() {
            let at = dest as usize + i;
            if let Some(old) = &self.items[at]
                && !same(old, item, &dtype)
                && !self.is_jitter(old, item, at)
            {
                let other = who(self.by[at].wrapping_sub(1));
                let mut what =
                    format!("value {i} is {item}, but {old} in {other}, which lies at the same place ({at})");
                if unit_text(&coord.attrs) != unit_text(&first.attrs) {
                    what.push_str(&format!(
                        "; units are {} and {}: `gdal mdim mosaic` does not look at units",
                        unit_text(&coord.attrs),
                        unit_text(&first.attrs)
                    ));
                }
                return bad(what);
            }
        }
        if !known {
            self.check_expected(&raw, &items, dest).map_err(problem)?;
        }
        Ok(Some(Addition { dtype, items, dest, coord: Arc::clone(coord), from, source }))
    }

    /// Distance to the nearer neighbour of place `at`; 0 if there is none.
    fn spacing(&self, at: usize) -> f64 {
        let value = |at: usize| match (self.items.get(at).and_then(Option::as_ref), &self.expected) {
            (Some(item), _) => number(item),
            (None, Some(expected)) => expected.get(at).copied(),
            (None, None) => None,
        };
        let gap = |other: Option<usize>| Some((value(other?)? - value(at)?).abs()).filter(|g| *g > 0.0);
        match (gap(at.checked_sub(1)), gap(at.checked_add(1))) {
            (Some(a), Some(b)) => a.min(b),
            (Some(g), None) | (None, Some(g)) => g,
            (None, None) => 0.0,
        }
    }

    /// Whether two values differ by no more than a millionth of a cell: files of one grid, whose coordinates were computed in
    /// two ways. The first source's value is kept.
    fn is_jitter(&self, old: &Item, new: &Item, at: usize) -> bool {
        match (number(old), number(new)) {
            (Some(old), Some(new)) => (old - new).abs() <= self.spacing(at) * 1e-6,
            _ => false,
        }
    }

    /// Takes what was checked.
    pub fn apply(&mut self, addition: Addition) {
        let Addition { dtype, items, dest, coord, from, source } = addition;
        match &mut self.first {
            Some(first) => first.dtype = dtype,
            None => {
                let time = TimeUnit::parse(coord.attrs.text("units").unwrap_or_default(), coord.attrs.text("calendar"));
                self.first = Some(First { source, dtype, attrs: coord.attrs.clone(), time });
            }
        }
        let count = items.len() as u64;
        for (i, item) in items.into_iter().enumerate() {
            let at = dest as usize + i;
            if self.items[at].is_none() {
                self.items[at] = Some(item);
                self.by[at] = source + 1;
            }
        }
        self.last = Some((coord, from, count, dest));
    }

    /// Values in the unit of the first source.
    fn convert(
        &self,
        first: &First,
        coord: &CoordValues,
        items: Vec<Item>,
        first_source: &str,
    ) -> Result<Vec<Item>, String> {
        let (theirs, ours) = (&coord.attrs, &first.attrs);
        for packing in ["scale_factor", "add_offset", "_Unsigned"] {
            let (a, b) = (theirs.get(packing), ours.get(packing));
            let same = match (a, b) {
                (Some(a), Some(b)) => same_value(&a.value, &b.value),
                (a, b) => a.is_none() && b.is_none(),
            };
            if !same {
                return Err(format!(
                    "its {packing} is {}, but {} in {first_source}",
                    attribute_text(a),
                    attribute_text(b)
                ));
            }
        }
        let calendars = (theirs.text("calendar"), ours.text("calendar"));
        let same_calendar = calendars.0 == calendars.1 || calendars_equal(calendars.0, calendars.1);
        if theirs.text("units") == ours.text("units") && same_calendar {
            return Ok(items);
        }
        let differ = || format!("its unit is {}, but {} in {first_source}", unit_text(theirs), unit_text(ours));
        let time = TimeUnit::parse(theirs.text("units").unwrap_or_default(), theirs.text("calendar"));
        let (Some(from), Some(to)) = (time, &first.time) else {
            return Err(differ());
        };
        if from.same_axis(to) {
            return Ok(items);
        }
        items
            .iter()
            .map(|item| {
                let converted = match item {
                    Item::Int(v) if v.abs() <= EXACT => from.convert(*v as f64, to),
                    Item::Float(v) => from.convert(*v, to),
                    _ => None,
                };
                converted.map(Item::Float)
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| format!("{}, and its values can't be converted exactly", differ()))
    }

    /// Whether the values are where the plan says.
    fn check_expected(&self, raw: &[Item], converted: &[Item], dest: u64) -> Result<(), String> {
        let Some(expected) = &self.expected else { return Ok(()) };
        for i in 0..raw.len() {
            let at = dest as usize + i;
            let want = expected[at];
            let spacing = self.spacing(at);
            let near = |item: &Item| {
                let v = match item {
                    Item::Int(v) => *v as f64,
                    Item::Float(v) => *v,
                    Item::Text(_) => return true,
                };
                (v - want).abs() <= (spacing * 1e-2).max(want.abs() * 1e-6) || (v.is_nan() && want.is_nan())
            };
            if !near(&raw[i]) && !near(&converted[i]) {
                return Err(format!(
                    "value {i} is {}, but the VRT says {want} for its place ({at}): the VRT was made of other files; make it again",
                    raw[i]
                ));
            }
        }
        Ok(())
    }

    /// The values, complete.
    ///
    /// # Errors
    /// [`Error::Plan`] if the plan has values in order and these are not, or a place has no value.
    pub fn finish(&self, names: &[String]) -> Result<Option<AxisValues>> {
        let who = |at: usize| names.get(self.by[at].wrapping_sub(1) as usize).map_or("the VRT", String::as_str);
        let (dtype, attrs) = match &self.first {
            Some(first) => (first.dtype, first.attrs.clone()),
            None if self.expected.is_some() => (DType::new(Kind::Float, 8, ByteOrder::Little), Attributes::default()),
            None => return Ok(None),
        };
        let mut items = Vec::with_capacity(self.items.len());
        for (at, item) in self.items.iter().enumerate() {
            items.push(match (item, self.expected.as_ref().and_then(|e| e.get(at))) {
                (Some(item), _) => item.clone(),
                (None, Some(v)) if dtype.kind == Kind::Float => {
                    Item::Float(float_from_le(&float_to_le(*v, dtype.size)))
                }
                (None, Some(v)) => Item::Float(*v),
                (None, None) => {
                    return Err(Error::Plan(format!("coordinate \"{}\" has no value at place {at}", self.name)));
                }
            });
        }
        if let Some(expected) = &self.expected {
            let sign = match expected.as_slice() {
                [a, b, ..] if expected.windows(2).all(|w| (w[1] - w[0]) * (b - a) > 0.0) => (b - a).signum(),
                _ => 0.0,
            };
            let disorder = |w: &[Item]| match (number(&w[0]), number(&w[1])) {
                (Some(a), Some(b)) => sign != 0.0 && (b - a) * sign <= 0.0,
                _ => false,
            };
            if let Some(at) = items.windows(2).position(disorder) {
                return Err(Error::Plan(format!(
                    "coordinate \"{}\": {} ({}) at place {at} and {} ({}) at place {} are not in the order of the VRT, \
                     which does not look at units: the sources can't be put in order as they are",
                    self.name,
                    items[at],
                    who(at),
                    items[at + 1],
                    who(at + 1),
                    at + 1
                )));
            }
        }
        let mut values = Vec::with_capacity(items.len() * dtype.size);
        for (at, item) in items.iter().enumerate() {
            values.extend(encode(&dtype, item).ok_or_else(|| {
                Error::Plan(format!("coordinate \"{}\": value {item} at place {at} is not a {dtype}", self.name))
            })?);
        }
        Ok(Some(AxisValues { dtype, attrs, values }))
    }
}

/// A number as a float.
fn number(item: &Item) -> Option<f64> {
    match item {
        Item::Int(v) => Some(*v as f64),
        Item::Float(v) => Some(*v),
        Item::Text(_) => None,
    }
}

/// Equal as values of `dtype`.
fn same(a: &Item, b: &Item, dtype: &DType) -> bool {
    a == b || encode(dtype, a).is_some_and(|a| encode(dtype, b) == Some(a))
}

/// Little-endian values of an affine coordinate of `count` values; None if they are not of `dtype`.
pub fn affine_values(affine: &Affine, dtype: &DType, count: u64) -> Option<Vec<u8>> {
    let whole = affine.start.as_i64().zip(affine.step.as_i64()).filter(|_| dtype.kind != Kind::Float);
    let mut values = Vec::new();
    for i in 0..count {
        match whole {
            Some((start, step)) => {
                let v = i128::from(start) + i128::from(i) * i128::from(step);
                values.extend(encode(dtype, &Item::Int(v))?);
            }
            None if dtype.kind == Kind::Float => values.extend(float_to_le(affine.at(i), dtype.size)),
            None => return None,
        }
    }
    Some(values)
}

/// Start and step, if start + i · step, rounded to `dtype` once, is every one of these little-endian values.
pub fn affine(dtype: &DType, values: &[u8]) -> Option<Affine> {
    let items = decode(&dtype.with_order(ByteOrder::Little), values);
    let (first, second, last) = (items.first()?, items.get(1)?, items.last()?);
    match (first, second, last) {
        (Item::Int(start), Item::Int(second), _) => {
            let (start, step) = (i64::try_from(*start).ok()?, i64::try_from(second - start).ok()?);
            let regular = items
                .iter()
                .enumerate()
                .all(|(i, v)| *v == Item::Int(i128::from(start) + i as i128 * i128::from(step)));
            (regular && step != 0).then(|| Affine { start: start.into(), step: step.into() })
        }
        (Item::Float(start), Item::Float(second), Item::Float(last)) if matches!(dtype.size, 4 | 8) => {
            let mut starts = vec![*start];
            if dtype.size == 4 {
                starts.extend((*start as f32).to_string().parse::<f64>());
            }
            let mean = (last - start) / (items.len() - 1) as f64;
            let mut steps = vec![second - start, mean];
            steps.extend((0..13).filter_map(|digits| format!("{mean:.digits$}").parse::<f64>().ok()));
            for start in starts {
                for step in steps.iter().copied().filter(|s| *s != 0.0 && s.is_finite()) {
                    let fits = |i: usize, v: &Item| {
                        let x = start + i as f64 * step;
                        let rounded = if dtype.size == 4 { f64::from(x as f32) } else { x };
                        matches!(v, Item::Float(v) if v.to_bits() == rounded.to_bits())
                    };
                    if items.iter().enumerate().all(|(i, v)| fits(i, v)) {
                        return Some(Affine {
                            start: serde_json::Number::from_f64(start)?,
                            step: serde_json::Number::from_f64(step)?,
                        });
                    }
                }
            }
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Attribute;

    fn coord(dtype: &str, values: &[f64], units: &str) -> Arc<CoordValues> {
        let dtype = DType::parse(dtype).unwrap();
        let mut bytes = Vec::new();
        for v in values {
            let item = if dtype.kind == Kind::Float { Item::Float(*v) } else { Item::Int(*v as i128) };
            let mut b = encode(&dtype.with_order(ByteOrder::Little), &item).unwrap();
            if dtype.order == ByteOrder::Big {
                swap_in_place(&mut b, dtype.swap_size());
            }
            bytes.extend(b);
        }
        let attrs = Attributes(vec![Attribute { name: "units".into(), value: units.into(), dtype: None }]);
        Arc::new(CoordValues { name: "time".into(), dtype, attrs, values: bytes })
    }

    fn join(expected: &[f64], parts: &[(&str, &[f64], &str, u64)]) -> Result<AxisValues> {
        let names: Vec<String> = (0..parts.len()).map(|i| format!("{i}.nc")).collect();
        let mut axis = Axis::new("time", expected.len(), Some(expected.to_vec()));
        for (i, (dtype, values, units, dest)) in parts.iter().enumerate() {
            let coord = coord(dtype, values, units);
            let window = (0, values.len() as u64, *dest);
            if let Some(addition) = axis.check(&coord, window, i as u32, false, &names)? {
                axis.apply(addition);
            }
        }
        Ok(axis.finish(&names)?.unwrap())
    }

    fn floats(values: &AxisValues) -> Vec<f64> {
        decode(&values.dtype, &values.values)
            .iter()
            .map(|i| match i {
                Item::Int(v) => *v as f64,
                Item::Float(v) => *v,
                Item::Text(_) => f64::NAN,
            })
            .collect()
    }

    const D: &str = "days since 2000-01-01";

    #[test]
    fn the_sources_type_is_kept_and_promoted_only_when_they_differ() {
        let same = join(&[0.0, 1.0], &[("<f4", &[0.0], D, 0), ("<f4", &[1.0], D, 1)]).unwrap();
        assert_eq!((same.dtype.to_string().as_str(), floats(&same)), ("<f4", vec![0.0, 1.0]));
        let big = join(&[0.0, 1.0], &[(">i4", &[0.0], D, 0), (">i4", &[1.0], D, 1)]).unwrap();
        assert_eq!((big.dtype.to_string().as_str(), floats(&big)), ("<i4", vec![0.0, 1.0]));
        let mixed = join(&[0.0, 1.5], &[("<i4", &[0.0], D, 0), ("<f4", &[1.5], D, 1)]).unwrap();
        assert_eq!((mixed.dtype.to_string().as_str(), floats(&mixed)), ("<f8", vec![0.0, 1.5]));
    }

    #[test]
    fn a_moved_epoch_is_converted_exactly() {
        let units = ("days since 1978-01-01", "days since 1978-01-01 12:00:00");
        let joined =
            join(&[15536.0, 15537.0], &[("<f8", &[15536.0], units.0, 0), ("<f8", &[15537.0], units.1, 1)]).unwrap();
        assert_eq!(floats(&joined), [15536.0, 15537.5]);
        assert_eq!(joined.attrs.text("units"), Some(units.0));
        // whole numbers that do not stay whole
        let joined =
            join(&[15536.0, 15537.0], &[("<i4", &[15536.0], units.0, 0), ("<i4", &[15537.0], units.1, 1)]).unwrap();
        assert_eq!((joined.dtype.to_string().as_str(), floats(&joined)), ("<f8", vec![15536.0, 15537.5]));
    }

    #[test]
    fn contradictions_name_both() {
        let e =
            join(&[0.0], &[("<f8", &[0.0], "days since 1998-01-16", 0), ("<f8", &[0.0], "days since 1998-02-16", 0)])
                .unwrap_err()
                .to_string();
        for part in ["0.nc", "1.nc", "31", "1998-01-16", "1998-02-16"] {
            assert!(e.contains(part), "{e}");
        }
        let e = join(&[0.0, 1.0], &[("<f8", &[0.0], "m", 0), ("<f8", &[1.0], "km", 1)]).unwrap_err().to_string();
        assert!(e.contains("\"km\"") && e.contains("\"m\""), "{e}");
        // the order of the VRT is not the order in time
        let e = join(&[0.0, 1.0], &[("<f8", &[0.0], D, 0), ("<f8", &[1.0], "days since 1999-01-01", 1)])
            .unwrap_err()
            .to_string();
        assert!(e.contains("order"), "{e}");
        // the VRT is of other files
        let e = join(&[0.0, 5.0], &[("<f8", &[0.0], D, 0), ("<f8", &[1.0], D, 1)]).unwrap_err().to_string();
        assert!(e.contains("VRT says 5"), "{e}");
    }

    #[test]
    fn exact_progressions_only() {
        let f4 = DType::parse("<f4").unwrap();
        let bytes = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let lat: Vec<f32> = (0..720).map(|i| i as f32 * 0.25 - 89.875).collect();
        let a = affine(&f4, &bytes(&lat)).unwrap();
        assert_eq!((a.start.as_f64(), a.step.as_f64()), (Some(-89.875), Some(0.25)));
        let tenth: Vec<f32> = (0..100).map(|i| (0.1 + f64::from(i) * 0.1) as f32).collect();
        let a = affine(&f4, &bytes(&tenth)).unwrap();
        assert!((0..100).all(|i| a.at(i) as f32 == tenth[i as usize]));
        let mut off = lat.clone();
        off[300] = f32::from_bits(off[300].to_bits() + 1);
        assert!(affine(&f4, &bytes(&off)).is_none());
        assert!(affine(&f4, &bytes(&[1.0])).is_none());
        let i2 = DType::parse("<i2").unwrap();
        let ints: Vec<u8> = [5i16, 3, 1, -1].iter().flat_map(|x| x.to_le_bytes()).collect();
        let a = affine(&i2, &ints).unwrap();
        assert_eq!((a.start.as_i64(), a.step.as_i64()), (Some(5), Some(-2)));
    }
}
