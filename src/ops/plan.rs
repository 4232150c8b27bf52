//! `plan`: makes a scanned store readable as one array, from a mosaic VRT or from the sources' own coordinates.

use super::get_refs::{self, parse_selection};
use super::inputs::{self, Inputs};
use super::physical::{self, Consumer, MaskedChunks, Message, ScanOptions, Task, Wanted};
use super::{ArgKind, ArgSpec, Args, Command, Context};
use crate::io::Stat;
use crate::model::{Attribute, Attributes, ByteOrder, DType, Kind, Storage};
use crate::plan::along::{Member, NewDimension, OrderBy, join};
use crate::plan::axis::CoordValues;
use crate::plan::time::TimeUnit;
use crate::store::Writer;
use crate::vrt;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The command.
pub static COMMAND: Command = Command {
    name: "plan",
    in_mdim: false,
    help: "Put the sources of a store together as one array: as a mosaic VRT says, or along a dimension by their own coordinates.",
    args: &[
        ArgSpec::positional("store", ArgKind::Text, "STORE", "Store of scanned sources (get-refs)"),
        ArgSpec {
            required: false,
            ..ArgSpec::positional("vrt", ArgKind::Text, "VRT", "Mosaic VRT (`gdal mdim mosaic`) to take the plan from")
        },
        ArgSpec::option("along", ArgKind::Text, "DIM", "Put the sources one after the other along this dimension"),
        ArgSpec::flag("new-dim", "The dimension of --along is new: each source is one step of it"),
        ArgSpec::option(
            "pattern",
            ArgKind::Text,
            "TEXT",
            "The new dimension's values are in the file names: sst_%Y%m%d.tif, level_{}.nc ({}: a number, *: any text)",
        ),
        ArgSpec::option(
            "values",
            ArgKind::TextList,
            "VALUE",
            "The new dimension's values, one for each source as scanned: numbers, dates or texts, or @file with one a line",
        ),
        ArgSpec::option("unit", ArgKind::Text, "UNIT", "Unit of the new dimension's numbers"),
        ArgSpec::option(
            "order-by",
            ArgKind::Text,
            "VARIABLE",
            "Order by this variable along the dimension, not by its coordinate; `given`: in the order of the scan",
        ),
        ArgSpec::option(
            "array",
            ArgKind::TextList,
            "NAME[=NEW]",
            "Only this array (NEW: as it is called in the store)",
        ),
    ],
    run,
};

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let selection = parse_selection(args.list("array"))?;
    let path = args.required("store")?;
    let only_along = ["new-dim", "pattern", "values", "unit", "order-by"];
    match (args.text("vrt"), args.text("along")) {
        (Some(_), Some(_)) => Err(Error::Invalid("a VRT and --along exclude each other".into())),
        (None, None) => Err(Error::Invalid("what is the plan? Give a mosaic VRT, or --along DIM".into())),
        (Some(vrt), None) => {
            if let Some(name) =
                only_along.iter().find(|n| args.0.contains_key(**n) && args.0[**n] != super::ArgValue::Flag(false))
            {
                return Err(Error::Invalid(format!("--{name} goes with --along")));
            }
            let Inputs::Vrt { path: vrt, xml } = inputs::resolve(ctx.opener.as_ref(), &[vrt.to_owned()])? else {
                return Err(Error::Invalid(format!("{vrt} is not a mosaic VRT (`gdal mdim mosaic`)")));
            };
            let mut mosaic = vrt::parse(&vrt, &xml)?;
            for source in &mut mosaic.sources {
                *source = inputs::source_name(source)?;
            }
            let mut store = Writer::open(path)?;
            store.begin()?;
            get_refs::plan(store, mosaic, selection, None, &vrt, ctx)
        }
        (None, Some(dim)) => along(args, path, dim.trim_start_matches('/'), selection, ctx),
    }
}

/// Sources of a store that are no files of a Zarr: their number, name and what is known of them.
fn sources_of(store: &Writer) -> Result<Vec<String>> {
    let all = store.sources()?;
    let folders: Vec<String> = all
        .iter()
        .filter(|(_, _, s)| *s == Stat::default())
        .map(|(_, n, _)| format!("{}/", n.trim_end_matches('/')))
        .collect();
    Ok(all
        .into_iter()
        .map(|(_, n, _)| n)
        .filter(|n| !folders.iter().any(|f| n.starts_with(f.as_str()) && n != f))
        .collect())
}

fn along(
    args: &Args,
    path: &str,
    dim: &str,
    mut selection: BTreeMap<String, String>,
    ctx: &mut Context<'_>,
) -> Result<String> {
    let new = args.flag("new-dim");
    let (pattern, values) = (args.text("pattern"), args.list("values"));
    if !new && (pattern.is_some() || !values.is_empty() || args.text("unit").is_some()) {
        return Err(Error::Invalid("--pattern, --values and --unit are for --new-dim".into()));
    }
    if pattern.is_some() && !values.is_empty() {
        return Err(Error::Invalid("--pattern and --values exclude each other".into()));
    }
    let order_by = match args.text("order-by") {
        None => OrderBy::Coordinate,
        Some("given") => OrderBy::Given,
        Some(name) => OrderBy::Variable(name.trim_start_matches('/').to_owned()),
    };
    let mut store = Writer::open(path)?;
    let arrays = store.arrays()?;
    let referenced = |name: &str| arrays.iter().find(|a| a.name == name && a.storage == Storage::Referenced);
    let sources = sources_of(&store)?;
    let mut members = facts(&sources, &selection, &order_by, dim, new, ctx)?;
    // Without a choice: what the store has of the sources.
    if selection.is_empty() {
        for array in members.iter().flat_map(|m| &m.facts.arrays) {
            if !(new && array.dims.is_empty() && array.name == dim)
                && (array.dims.is_empty() || referenced(&array.name).is_some())
            {
                selection.insert(array.name.clone(), array.name.clone());
            }
        }
    }
    let new_dimension = match new {
        false => None,
        true => Some(NewDimension {
            name: dim.to_owned(),
            steps: steps(dim, &members, pattern, &given_values(values, ctx)?, args.text("unit"))?,
        }),
    };
    for member in &mut members {
        if let Some(new) = &new_dimension {
            new.apply(&member.source, &mut member.facts);
        }
        if let OrderBy::Variable(name) = &order_by
            && let Some(array) = member.facts.arrays.iter().find(|a| a.name == *name)
            && let Some((_, values)) = member.facts.values.iter().find(|(n, _)| n == name)
        {
            let coord = CoordValues {
                name: name.clone(),
                dtype: array.dtype,
                attrs: array.attrs.clone(),
                values: values.clone(),
            };
            member.facts.coords.push(Arc::new(coord));
        }
        member.facts.arrays.retain(|a| selection.contains_key(&a.name));
        if let Some((name, _)) =
            selection.iter().find(|(_, n)| !member.facts.arrays.iter().any(|a| selection.get(&a.name) == Some(*n)))
        {
            return Err(Error::Plan(format!(
                "{} has no array \"{name}\": choose arrays that all sources have with --array",
                member.source
            )));
        }
    }
    let mosaic = join(dim, &order_by, &members)?;
    store.begin()?;
    if new {
        // The chunk tables get the dimension too; a plan that fails takes it back.
        let model = &members[0].facts;
        for array in model.arrays.iter().filter(|a| a.dims.first().is_some_and(|d| d.name == dim)) {
            let name = &selection[&array.name];
            if let Some(desc) = referenced(name).filter(|d| d.dims.len() + 1 == array.dims.len()) {
                store.add_dimension(&desc.name, dim)?;
            }
        }
    }
    let said = format!("--along {dim}{}", if new { " --new-dim" } else { "" });
    get_refs::plan(store, mosaic, selection, new_dimension, &said, ctx)
}

/// What the sources say of themselves.
fn facts(
    sources: &[String],
    selection: &BTreeMap<String, String>,
    order_by: &OrderBy,
    dim: &str,
    new: bool,
    ctx: &mut Context<'_>,
) -> Result<Vec<Member>> {
    let variable = match order_by {
        OrderBy::Variable(name) => Some(name.clone()),
        _ => None,
    };
    let wanted = if selection.is_empty() {
        Wanted::All
    } else {
        let mut names: Vec<String> = selection.keys().cloned().collect();
        names.extend(variable.clone().filter(|v| !selection.contains_key(v)));
        if new && !selection.contains_key(dim) {
            names.push(dim.to_owned());
        }
        Wanted::Some(names)
    };
    let task = |source: &String| Task { source: source.clone(), wanted: wanted.clone(), chunks: false, coords: true };
    let tasks: Vec<Task> = sources.iter().map(task).collect();
    let opener = Arc::clone(&ctx.opener);
    let mut collector = Collector { members: Vec::new(), bad: Vec::new(), ctx, total: sources.len(), dim };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = ScanOptions { masked: MaskedChunks::Fail, split_contiguous: None };
    physical::scan_all(&opener, &tasks, threads, options, &mut collector)?;
    let Collector { mut members, bad, .. } = collector;
    let bad: Vec<(String, Error)> =
        bad.into_iter().map(|(task, e)| (task.parse::<usize>().map_or(task, |i| sources[i].clone()), e)).collect();
    if bad.is_empty() {
        members.iter_mut().zip(sources).for_each(|(m, s)| m.source.clone_from(s));
    }
    if let Some(name) = variable.as_ref().filter(|_| bad.is_empty()) {
        for member in &mut members {
            if !member.facts.coords.iter().any(|c| c.name == *name)
                && !member.facts.values.iter().any(|(n, _)| n == name)
                && member.facts.arrays.iter().any(|a| a.name == *name)
            {
                member.facts.values.push((name.clone(), physical::values(&opener, &member.source, name)?));
            }
        }
    }
    if bad.is_empty() {
        return Ok(members);
    }
    let list: Vec<String> = bad.iter().take(50).map(|(s, e)| format!("\n  {s}: {e}")).collect();
    Err(Error::Plan(format!("{} of {} sources can't be used:{}", bad.len(), sources.len(), list.concat())))
}

struct Collector<'a, 'c> {
    members: Vec<Member>,
    bad: Vec<(String, Error)>,
    ctx: &'a mut Context<'c>,
    total: usize,
    dim: &'a str,
}

impl Consumer for Collector<'_, '_> {
    fn message(&mut self, task: usize, message: Message) -> Result<bool> {
        match message {
            Message::Opened { mut facts, .. } => {
                // Equal coordinates of many sources are held once.
                if let Some(last) = self.members.last() {
                    for coord in facts.coords.iter_mut().filter(|c| c.name != self.dim) {
                        if let Some(same) = last.facts.coords.iter().find(|o| **o == *coord) {
                            *coord = Arc::clone(same);
                        }
                    }
                }
                self.members.push(Member { source: String::new(), facts: *facts });
            }
            Message::Failed(error) => self.bad.push((task.to_string(), error)),
            Message::Rows(_) | Message::Done => {}
        }
        self.ctx.report(0.5 * task as f64 / self.total.max(1) as f64, "")?;
        Ok(true)
    }

    fn idle(&mut self) -> Result<()> {
        self.ctx.report(0.5 * self.members.len() as f64 / self.total.max(1) as f64, "")
    }
}

/// `--values`, with `@file` read.
fn given_values(list: &[String], ctx: &Context<'_>) -> Result<Vec<String>> {
    let mut values = Vec::new();
    for item in list {
        match item.strip_prefix('@') {
            Some(file) => {
                let text = inputs::read_text(ctx.opener.as_ref(), &inputs::source_name(file)?)?;
                values.extend(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned));
            }
            None => values.extend(item.split(',').map(|v| v.trim().to_owned())),
        }
    }
    Ok(values)
}

/// The new dimension's value of each source.
fn steps(
    dim: &str,
    members: &[Member],
    pattern: Option<&str>,
    values: &[String],
    unit: Option<&str>,
) -> Result<HashMap<String, Arc<CoordValues>>> {
    let texts: Vec<String> = if let Some(pattern) = pattern {
        members.iter().map(|m| match_name(pattern, &m.source)).collect::<Result<_>>()?
    } else if !values.is_empty() {
        if values.len() != members.len() {
            return Err(Error::Invalid(format!("--values: there are {}, but {} sources", values.len(), members.len())));
        }
        values.to_vec()
    } else {
        // A variable without dimensions that has the new one's name.
        let mut steps = HashMap::new();
        for m in members {
            let scalar = m.facts.arrays.iter().find(|a| a.name == dim && a.dims.is_empty());
            if let (Some(a), Some((_, v))) = (scalar, m.facts.values.iter().find(|(n, _)| n == dim)) {
                let coord =
                    CoordValues { name: dim.to_owned(), dtype: a.dtype, attrs: a.attrs.clone(), values: v.clone() };
                steps.insert(m.source.clone(), Arc::new(coord));
            }
        }
        return Ok(steps);
    };
    let (dtype, bytes, attrs) = typed(&texts, unit)?;
    let size = dtype.size.max(1);
    let coord = |i: usize| CoordValues {
        name: dim.to_owned(),
        dtype,
        attrs: attrs.clone(),
        values: bytes[i * size..(i + 1) * size].to_vec(),
    };
    Ok(members.iter().enumerate().map(|(i, m)| (m.source.clone(), Arc::new(coord(i)))).collect())
}

/// Whole numbers, floats, dates (as days, or seconds, since 1970) or texts, whichever all are.
fn typed(texts: &[String], unit: Option<&str>) -> Result<(DType, Vec<u8>, Attributes)> {
    let mut attrs = Attributes::default();
    let mut set = |name: &str, value: &str| {
        attrs.set(Attribute { name: name.into(), value: value.into(), dtype: None });
    };
    let of = |kind, size| DType::new(kind, size, ByteOrder::Little);
    let whole: Option<Vec<i64>> = texts.iter().map(|t| t.parse().ok()).collect();
    let floats: Option<Vec<f64>> = texts.iter().map(|t| t.parse().ok().filter(|v: &f64| v.is_finite())).collect();
    let seconds: Option<Vec<i64>> = texts.iter().map(|t| seconds_of(t)).collect();
    let (dtype, bytes) = if let Some(list) = whole {
        (of(Kind::Int, 8), list.iter().flat_map(|v| v.to_le_bytes()).collect())
    } else if let Some(list) = floats {
        (of(Kind::Float, 8), list.iter().flat_map(|v| v.to_le_bytes()).collect())
    } else if let Some(list) = seconds {
        if unit.is_some() {
            return Err(Error::Invalid("--unit is for numbers: dates have their own".into()));
        }
        let days = list.iter().all(|s| s % 86_400 == 0);
        set("standard_name", "time");
        set("units", if days { "days since 1970-01-01" } else { "seconds since 1970-01-01" });
        set("calendar", "proleptic_gregorian");
        let length = if days { 86_400 } else { 1 };
        (of(Kind::Int, 8), list.iter().flat_map(|v| (v / length).to_le_bytes()).collect())
    } else {
        let size = texts.iter().map(String::len).max().unwrap_or_default().max(1);
        let pad = |t: &String| t.bytes().chain(std::iter::repeat(0)).take(size).collect::<Vec<u8>>();
        (of(Kind::Bytes, size), texts.iter().flat_map(pad).collect())
    };
    if let Some(unit) = unit {
        set("units", unit);
    }
    Ok((dtype, bytes, attrs))
}

/// Seconds since 1970 of `2000-01-31`, `2000-01-31T12:00:00`.
fn seconds_of(text: &str) -> Option<i64> {
    let day = text.get(..10).unwrap_or(text);
    if day.len() != 10 || day.bytes().filter(|b| *b == b'-').count() != 2 {
        return None;
    }
    let calendar = Some("proleptic_gregorian");
    let from = TimeUnit::parse(&format!("seconds since {text}"), calendar)?;
    let to = TimeUnit::parse("seconds since 1970-01-01", calendar)?;
    from.convert(0.0, &to).filter(|s| s.fract() == 0.0).map(|s| s as i64)
}

#[derive(PartialEq)]
enum Token {
    Any,
    Char(char),
    Field(char),
}

/// The texts of the fields, if `text` is like `tokens`.
fn captures<'t>(tokens: &[Token], text: &'t str) -> Option<Vec<&'t str>> {
    let Some((token, rest)) = tokens.split_first() else { return text.is_empty().then(Vec::new) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match token {
        Token::Char(c) => captures(rest, text.strip_prefix(*c)?),
        Token::Any => text.char_indices().map(|(i, _)| i).chain([text.len()]).find_map(|i| captures(rest, &text[i..])),
        Token::Field(field) => {
            let lengths = match field {
                'n' => 1..=digits.min(18),
                'Y' => 4..=digits.min(4),
                _ => 2..=digits.min(2),
            };
            lengths.rev().find_map(|n| {
                let mut found = captures(rest, &text[n..])?;
                found.insert(0, &text[..n]);
                Some(found)
            })
        }
    }
}

/// What `pattern` says of the last part of a source's name: a date in ISO form, or a number.
fn match_name(pattern: &str, source: &str) -> Result<String> {
    let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let wrong = |what: &str| Error::Invalid(format!("--pattern {pattern}: {what}"));
    let mut tokens = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => Token::Any,
            '{' if chars.peek() == Some(&'}') => {
                chars.next();
                Token::Field('n')
            }
            '%' => match chars.next() {
                Some(field @ ('Y' | 'm' | 'd' | 'H' | 'M' | 'S')) => Token::Field(field),
                Some('%') => Token::Char('%'),
                _ => return Err(wrong("after % comes Y, m, d, H, M, S or %")),
            },
            c => Token::Char(c),
        });
    }
    if tokens.iter().filter(|t| **t == Token::Any).count() > 4 {
        return Err(wrong("it has more than four *"));
    }
    let fields: Vec<char> =
        tokens.iter().filter_map(|t| if let Token::Field(f) = t { Some(*f) } else { None }).collect();
    let number = fields == ['n'];
    if fields.is_empty() || (!number && (fields.contains(&'n') || !fields.contains(&'Y'))) {
        return Err(wrong("it has one {} for a number, or the parts of a date with %Y"));
    }
    let found = captures(&tokens, name).ok_or_else(|| wrong(&format!("the name of {source} is not like it")))?;
    let part = |field: char, default: &str| {
        let at = fields.iter().position(|f| *f == field);
        at.and_then(|i| found.get(i)).map_or_else(|| default.to_owned(), |m| (*m).to_owned())
    };
    if number {
        let text = part('n', "");
        // 007 is 7.
        return Ok(text.parse::<i64>().map_or(text, |v| v.to_string()));
    }
    let date = format!("{}-{}-{}", part('Y', ""), part('m', "01"), part('d', "01"));
    let time = format!("{}:{}:{}", part('H', "00"), part('M', "00"), part('S', "00"));
    let text = format!("{date}T{time}");
    match seconds_of(&text) {
        Some(_) => Ok(text),
        None => Err(wrong(&format!("{source} gives {text}, which is no date"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        assert_eq!(match_name("sst_%Y%m%d.tif", "/a/sst_20000131.tif").unwrap(), "2000-01-31T00:00:00");
        assert_eq!(match_name("*_{}.nc", "/a/x_1_007.nc").unwrap(), "7");
        assert!(match_name("sst_%Y%m%d.tif", "/a/sst_20000231.tif").unwrap_err().to_string().contains("no date"));
        assert!(match_name("sst_%Y.tif", "/a/ice_2000.tif").unwrap_err().to_string().contains("ice_2000"));
        assert!(match_name("sst.tif", "/a/sst.tif").is_err());
        let of = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|s| (*s).to_owned()).collect();
            typed(&list, None).unwrap()
        };
        let (dtype, bytes, attrs) = of(&["1970-01-02", "2000-01-01"]);
        assert_eq!((dtype.to_string().as_str(), attrs.text("units")), ("<i8", Some("days since 1970-01-01")));
        assert_eq!(bytes, [1i64, 10957].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
        assert_eq!(of(&["1", "2.5"]).0.to_string(), "<f8");
        assert_eq!(of(&["a", "bcd"]).0.to_string(), "|S3");
    }
}
