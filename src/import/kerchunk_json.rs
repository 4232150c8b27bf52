//! kerchunk's references as JSON, versions 0 and 1.
//!
//! Specification: <https://fsspec.github.io/kerchunk/spec.html>. The document is read twice, as a stream: for metadata,
//! which may come after the chunks that it describes, and for the chunks.

use super::template::{Templates, Term, Variables};
use super::{Collection, Imported, References, ZarrArray, source_name, zarr2};
use crate::io::{ByteReader, Opener};
use crate::scan::zarr::{indices, parse_json};
use crate::{Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_core::de::value::MapAccessDeserializer;
use serde_core::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufReader, Read};

/// References that generators make, at most.
const MOST_GENERATED: u64 = 1_000_000;
/// Chunks between two reports of progress.
const STEP: u64 = 1 << 16;
/// Things of one kind that are listed one by one.
const MOST_LISTED: usize = 20;

/// What a key stands for.
enum Entry<'a> {
    /// Text, or bytes in base64.
    Text(Cow<'a, str>),
    /// A path or URL, byte offset and size; the whole file without them.
    Range(Cow<'a, str>, Option<(u64, u64)>),
    /// JSON.
    Object(Value),
}

type Sink<'a> = dyn FnMut(&str, Entry<'_>) -> Result<(), String> + 'a;

/// What a document says beside its references.
#[derive(Default)]
struct Head {
    version: Option<u64>,
    templates: Option<Value>,
    generators: Option<Value>,
}

/// A document as a stream of bytes.
struct Stream<'a> {
    reader: &'a dyn ByteReader,
    at: u64,
    size: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let count = buf.len().min(left);
        self.reader.read_at(self.at, &mut buf[..count]).map_err(std::io::Error::other)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Takes one entry.
struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, [path], [path, offset, size] or an object")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Entry::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Entry::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let path: String = list.next_element()?.ok_or_else(|| A::Error::custom("an empty list is no reference"))?;
        let range = match list.next_element::<u64>()? {
            None => None,
            Some(offset) => {
                let size = list.next_element::<u64>()?;
                Some((offset, size.ok_or_else(|| A::Error::custom("a reference has an offset, but no size"))?))
            }
        };
        match list.next_element::<IgnoredAny>()? {
            None => Ok(Entry::Range(Cow::Owned(path), range)),
            Some(_) => Err(A::Error::custom("a reference is a list of at most three")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        serde_core::de::Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Entry::Object)
    }
}

impl<'de> DeserializeSeed<'de> for EntryVisitor {
    type Value = Entry<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Gives the references of a map to a sink.
struct Map<'a, 'b>(&'a mut Sink<'b>);

impl<'de> Visitor<'de> for Map<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let entry = map.next_value_seed(EntryVisitor).map_err(|e| A::Error::custom(format!("\"{key}\": {e}")))?;
            (self.0)(&key, entry).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Map<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// The whole: version 0 is a map of references, version 1 has them in one of its members.
struct Document<'a, 'b> {
    head: &'a mut Head,
    sink: &'a mut Sink<'b>,
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object: kerchunk's references")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => {
                    let version: Value = map.next_value()?;
                    self.head.version = version.as_u64().or_else(|| version.as_str()?.parse().ok());
                    if !matches!(self.head.version, Some(0 | 1)) {
                        return Err(A::Error::custom(format!("version {version} is not 0 or 1")));
                    }
                }
                "templates" => self.head.templates = Some(map.next_value()?),
                "gen" => self.head.generators = Some(map.next_value()?),
                "refs" => map.next_value_seed(Map(&mut *self.sink))?,
                _ => {
                    let entry =
                        map.next_value_seed(EntryVisitor).map_err(|e| A::Error::custom(format!("\"{key}\": {e}")))?;
                    (self.sink)(&key, entry).map_err(A::Error::custom)?;
                }
            }
        }
        Ok(())
    }
}

fn walk(reader: &dyn ByteReader, head: &mut Head, sink: &mut Sink<'_>) -> Result<()> {
    let bad = |what: String| Error::Format { path: reader.path().to_owned(), offset: 0, what };
    let stream = Stream { reader, at: 0, size: reader.size()? };
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 20, stream));
    let read = json.deserialize_map(Document { head, sink }).and_then(|()| json.end());
    read.map_err(|e| bad(format!("it is no kerchunk JSON: {e}")))
}

/// Whether a key is of metadata.
fn is_metadata(key: &str) -> bool {
    matches!(key.rsplit('/').next(), Some(".zarray" | ".zattrs" | ".zgroup" | ".zmetadata" | "zarr.json"))
}

/// Bytes of an entry's text.
fn bytes(text: &str) -> Result<Cow<'_, [u8]>, String> {
    match text.strip_prefix("base64:") {
        Some(code) => STANDARD.decode(code).map(Cow::Owned).map_err(|_| "it is no base64".into()),
        None => Ok(Cow::Borrowed(text.as_bytes())),
    }
}

/// A list that grows only so far, and counts on.
#[derive(Default)]
struct Few {
    list: Vec<String>,
    count: usize,
}

impl Few {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.list.len() < MOST_LISTED {
            self.list.push(what());
        }
    }

    fn end(self, all: &mut Vec<String>) {
        let more = self.count - self.list.len();
        all.extend(self.list);
        if more > 0 {
            all.push(format!("… and {more} more of the kind"));
        }
    }
}

/// Puts references where they belong.
struct Sorter<'a> {
    opener: &'a dyn Opener,
    all: &'a mut Collection,
    arrays: Vec<(&'a str, &'a ZarrArray)>,
    numbers: BTreeMap<&'a str, usize>,
    references: Vec<References>,
    templates: Templates,
    folder: &'a str,
    strays: Few,
    /// The folder of the last chunk, with the number of its array.
    last: (String, usize),
}

impl Sorter<'_> {
    /// The array that a chunk's key belongs to: folder, number.
    fn array_of(&mut self, key: &str) -> Option<usize> {
        let mut end = key.len();
        loop {
            let folder = match key[..end].rfind('/') {
                Some(at) => &key[..at],
                None if end > 0 => "",
                None => return None,
            };
            if folder == self.last.0 && !folder.is_empty() {
                return Some(self.last.1);
            }
            if let Some(number) = self.numbers.get(folder) {
                self.last = (folder.to_owned(), *number);
                return Some(*number);
            }
            if folder.is_empty() {
                return None;
            }
            end = folder.len();
        }
    }

    fn add(&mut self, key: &str, entry: Entry<'_>) -> Result<(), String> {
        if is_metadata(key) {
            return Ok(());
        }
        let Some(number) = self.array_of(key) else {
            self.strays.add(|| format!("\"{key}\": it belongs to no array"));
            return Ok(());
        };
        let (folder, array) = self.arrays[number];
        let own = key[folder.len()..].trim_start_matches('/');
        let Some(indices) = indices(own, &array.meta) else {
            self.strays.add(|| format!("\"{key}\": it is no chunk of array \"{}\"", array.desc.name));
            return Ok(());
        };
        let place = indices
            .iter()
            .zip(array.meta.shape.iter().zip(&array.meta.chunks))
            .try_fold(0u64, |place, (index, (shape, chunk))| {
                place.checked_mul(shape.div_ceil(*chunk))?.checked_add(*index)
            });
        let place = place.ok_or_else(|| format!("\"{key}\": the array has too many chunks"))?;
        let named = |what: String| format!("\"{key}\": {what}");
        match entry {
            Entry::Text(text) => self.references[number].add_inline(place, &bytes(&text).map_err(named)?),
            Entry::Object(value) => {
                // What fsspec gives for it.
                self.references[number].add_inline(place, value.to_string().as_bytes());
            }
            Entry::Range(written, range) => {
                let (templates, folder) = (&self.templates, self.folder);
                let name = || {
                    let url = match templates.texts.get(&*written) {
                        Some(text) => text.clone(),
                        None if written.contains("{{") => templates.render(&written, &Variables::new())?,
                        None => written.clone().into_owned(),
                    };
                    source_name(&url, folder)
                };
                let source = self.all.sources.number(&written, name).map_err(named)?;
                let (offset, size) = match range {
                    Some((_, 0)) => return Err(named("a chunk of 0 bytes is none".into())),
                    Some(range) => range,
                    None => (0, whole_size(self.opener, &self.all.sources.names[source as usize]).map_err(named)?),
                };
                self.references[number].add(place, source, offset, size);
            }
        }
        Ok(())
    }

    fn generate(&mut self, generators: &Value) -> Result<(), String> {
        let list = generators.as_array().ok_or("\"gen\" is no list")?;
        let mut left = MOST_GENERATED;
        for (number, generator) in list.iter().enumerate() {
            self.generate_one(generator, &mut left).map_err(|e| format!("generator {number} of \"gen\": {e}"))?;
        }
        Ok(())
    }

    fn generate_one(&mut self, generator: &Value, left: &mut u64) -> Result<(), String> {
        let text = |name: &str| generator.get(name).and_then(Value::as_str);
        let key = text("key").ok_or("it has no \"key\"")?;
        let url = text("url").ok_or("it has no \"url\"")?;
        let range = match (generator.get("offset"), generator.get("length")) {
            (None | Some(Value::Null), None | Some(Value::Null)) => None,
            (Some(offset), Some(length)) => Some((expression(offset), expression(length))),
            _ => return Err("it has one of \"offset\" and \"length\" only".into()),
        };
        let dimensions = generator.get("dimensions").and_then(Value::as_object).ok_or("it has no \"dimensions\"")?;
        let mut axes: Vec<(&String, Vec<i64>)> = Vec::new();
        let mut count = 1u64;
        for (name, axis) in dimensions {
            let values = match axis {
                Value::Array(list) => list.iter().map(Value::as_i64).collect::<Option<Vec<_>>>(),
                Value::Object(range) => {
                    let number = |key: &str, default: i64| range.get(key).map_or(Some(default), Value::as_i64);
                    match (number("start", 0), range.get("stop").and_then(Value::as_i64), number("step", 1)) {
                        (Some(start), Some(stop), Some(step)) if step > 0 => {
                            let length = i128::from(stop) - i128::from(start);
                            if length > i128::from(MOST_GENERATED) * i128::from(step) {
                                return Err("it makes too many references".into());
                            }
                            Some((start..stop).step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect())
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            let values = values.ok_or_else(|| format!("its dimension \"{name}\" is not simple"))?;
            count = count.saturating_mul(values.len() as u64);
            axes.push((name, values));
        }
        if count > *left {
            return Err(format!("it makes more than {MOST_GENERATED} references"));
        }
        *left -= count;
        let templates = self.templates.clone();
        for number in 0..count {
            let mut rest = number as usize;
            let mut variables = Variables::new();
            for (name, values) in axes.iter().rev() {
                variables.insert((*name).clone(), Term::Number(values[rest % values.len()]));
                rest /= values.len();
            }
            let render = |text: &str| templates.render(text, &variables);
            let size = |text: &str| -> Result<u64, String> {
                let text = render(text)?;
                text.trim().parse().map_err(|_| format!("\"{text}\" is no number of bytes"))
            };
            let range = range.as_ref().map(|(o, l)| Ok::<_, String>((size(o)?, size(l)?))).transpose()?;
            self.add(&render(key)?, Entry::Range(Cow::Owned(render(url)?), range))?;
        }
        Ok(())
    }
}

fn expression(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Size of a file that is a chunk as a whole.
pub(super) fn whole_size(opener: &dyn Opener, name: &str) -> Result<u64, String> {
    let size = opener.stat(name).map_err(|e| e.to_string())?.size;
    size.filter(|s| *s > 0).ok_or_else(|| format!("{name} is empty, or its size is not known"))
}

/// Reads a document. `step` is called now and then with the number of references.
///
/// # Errors
/// [`Error::Format`] for what is no such document, [`Error::Io`]; what `step` gives.
pub fn read(opener: &dyn Opener, path: &str, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<Collection> {
    let reader = opener.open(path)?;
    let bad = |what: String| Error::Format { path: path.to_owned(), offset: 0, what };
    let mut metadata = BTreeMap::new();
    let mut head = Head::default();
    walk(reader.as_ref(), &mut head, &mut |key, entry| {
        if is_metadata(key) {
            let named = |e: String| format!("\"{key}\": {e}");
            let value = match entry {
                Entry::Object(value) => value,
                Entry::Text(text) => {
                    let bytes = bytes(&text).map_err(named)?;
                    let text = std::str::from_utf8(&bytes).map_err(|e| named(e.to_string()))?;
                    parse_json(text).map_err(named)?
                }
                Entry::Range(path, _) => return Err(named(format!("metadata in another file, {path}"))),
            };
            metadata.insert(key.to_owned(), value);
        }
        Ok(())
    })?;
    // Metadata of all in one, where that is all there is.
    if let Some(Value::Object(all)) = metadata.get(".zmetadata").and_then(|m| m.get("metadata")).cloned() {
        for (key, value) in all {
            metadata.entry(key).or_insert(value);
        }
    }
    let mut all = Collection::default();
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let own_name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".json");
    let arrays = zarr2::arrays(&mut all, &metadata, own_name);
    drop(metadata);
    let mut templates = Templates::default();
    if let Some(value) = &head.templates {
        let object = value.as_object().ok_or_else(|| bad("\"templates\" is no object".into()))?;
        for (name, text) in object {
            let text = text.as_str().ok_or_else(|| bad(format!("template \"{name}\" is no text")))?;
            templates.texts.insert(name.clone(), text.to_owned());
        }
    }
    let mut sorter = Sorter {
        opener,
        all: &mut all,
        arrays: arrays.iter().map(|(folder, array)| (folder.as_str(), array)).collect(),
        numbers: arrays.keys().enumerate().map(|(n, folder)| (folder.as_str(), n)).collect(),
        references: arrays.iter().map(|_| References::default()).collect(),
        templates,
        folder,
        strays: Few::default(),
        last: (String::new(), 0),
    };
    let mut count = 0u64;
    let mut stopped = None;
    let generators = head.generators.take();
    let walked = walk(reader.as_ref(), &mut Head::default(), &mut |key, entry| {
        count += 1;
        if count.is_multiple_of(STEP)
            && let Err(e) = step(count)
        {
            stopped = Some(e);
            return Err("interrupted".into());
        }
        sorter.add(key, entry)
    });
    if let Some(e) = stopped {
        return Err(e);
    }
    walked?;
    if let Some(generators) = &generators {
        sorter.generate(generators).map_err(bad)?;
    }
    let Sorter { references, strays, .. } = sorter;
    strays.end(&mut all.lost);
    if arrays.is_empty() && all.lost.is_empty() {
        return Err(bad("there is no array in it (no .zarray)".into()));
    }
    for ((_, array), references) in arrays.into_iter().zip(references) {
        all.arrays.push(Imported { desc: array.desc, info: array.info, references });
    }
    Ok(all)
}
