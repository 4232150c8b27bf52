//! `get-refs`: scans sources into a store and, from a mosaic VRT or one file, makes it readable as one array.

use super::inputs::{self, Inputs};
use super::parts::Parts;
use super::physical::{self, Batch, Consumer, MaskedChunks, Message, ScanOptions, Task, Wanted};
use super::{ArgKind, ArgSpec, Args, Command, Context, parse_size};
use crate::io::Stat;
use crate::model::{ArrayDesc, ArrayKind, Attributes, Cut, DimInfo, Kind, Storage, common_pieces};
use crate::plan::agree::Reference;
use crate::plan::along::NewDimension;
use crate::plan::{Builder, KnownSource, Placed, Plan, SourceFacts, same_slab};
use crate::scan::{Location, SourceArray};
use crate::store::{Placement, RowData, SourceId, Writer};
use crate::vrt::{self, Mosaic};
use crate::{Error, Result};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Instant;

/// The command.
pub static COMMAND: Command = Command {
    name: "get-refs",
    in_mdim: true,
    help: "List where every chunk of netCDF-4/HDF5 files lies, in one small SQLite file that GDAL reads as one array.",
    args: &[
        ArgSpec {
            name: "input",
            short: Some('i'),
            kind: ArgKind::TextList,
            positional: true,
            required: true,
            meta: "INPUT",
            help: "Files, @list.txt with one file a line, or one mosaic VRT (`gdal mdim mosaic`)",
            default: None,
        },
        ArgSpec {
            name: "output",
            short: Some('o'),
            kind: ArgKind::Text,
            positional: true,
            required: true,
            meta: "STORE",
            help: "Store to write, an SQLite file",
            default: None,
        },
        ArgSpec {
            name: "array",
            short: None,
            kind: ArgKind::TextList,
            positional: false,
            required: false,
            meta: "NAME[=NEW]",
            help: "Take only this array (by full name), and call it NEW in the store; may be repeated",
            default: None,
        },
        ArgSpec {
            name: "append",
            short: None,
            kind: ArgKind::Flag,
            positional: false,
            required: false,
            meta: "",
            help: "Add to an existing store: only sources that are new, or changed, are scanned",
            default: None,
        },
        ArgSpec {
            name: "overwrite",
            short: None,
            kind: ArgKind::Flag,
            positional: false,
            required: false,
            meta: "",
            help: "Replace an existing store",
            default: None,
        },
        ArgSpec {
            name: "rescan",
            short: None,
            kind: ArgKind::Flag,
            positional: false,
            required: false,
            meta: "",
            help: "With --append: scan sources again that seem unchanged",
            default: None,
        },
        ArgSpec {
            name: "skip-errors",
            short: None,
            kind: ArgKind::Flag,
            positional: false,
            required: false,
            meta: "",
            help: "Go on without sources that can't be used, and list them",
            default: None,
        },
        ArgSpec {
            name: "masked-chunks",
            short: None,
            kind: ArgKind::Choice(&["fail", "inline"]),
            positional: false,
            required: false,
            meta: "fail|inline",
            help: "A chunk that skipped a filter of its array: fail, or carry it in the store, encoded like the others",
            default: Some("fail"),
        },
        ArgSpec {
            name: "split-contiguous",
            short: None,
            kind: ArgKind::Text,
            positional: false,
            required: false,
            meta: "SIZE",
            help: "List arrays without chunks in pieces of at most this many bytes (or KB, MB, GB), not as one",
            default: None,
        },
        ArgSpec {
            name: "num-threads",
            short: Some('j'),
            kind: ArgKind::Integer,
            positional: false,
            required: false,
            meta: "N",
            help: "Sources scanned at a time (default: one for each CPU)",
            default: None,
        },
        ArgSpec {
            name: "of",
            short: Some('f'),
            kind: ArgKind::Text,
            positional: false,
            required: false,
            meta: "DRIVER",
            help: "MDIMREFS (default), or a vector driver (GPKG, Parquet, CSV, …): the chunks of one array as its table",
            default: None,
        },
    ],
    run,
};

/// Rows after which a batch of sources is committed.
const ROWS_A_COMMIT: u64 = 50_000;
/// Sources after which a batch is committed.
const SOURCES_A_COMMIT: u64 = 16;
/// Bad sources that a message names.
const NAMED: usize = 50;

/// What is done of the arrays.
enum Mode {
    /// A plan from a VRT.
    Vrt(Box<Builder>),
    /// One file: its own plan, made when it is open.
    One(Option<Box<Builder>>),
    /// The physical layer alone; what each array has.
    Physical(HashMap<String, Reference>),
}

/// How much of a source must be looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Its chunks and its facts.
    Chunks,
    /// Its facts: chunks are in the store.
    Facts,
    /// Nothing: chunks and placement are in the store.
    Known,
}

/// What an existing store holds of the plan.
#[derive(Default)]
struct Old {
    arrays: HashMap<String, ArrayDesc>,
    sources: HashMap<String, (SourceId, Stat)>,
    /// By source: (array, placement).
    placements: HashMap<SourceId, Vec<(String, Placed)>>,
    attributes: Attributes,
    groups: Vec<(String, Attributes)>,
}

struct Job<'a, 'c> {
    store: Writer,
    mode: Mode,
    old: Old,
    depths: Vec<Depth>,
    /// Number of the source of each task.
    task_sources: Vec<usize>,
    names: Vec<String>,
    selection: BTreeMap<String, String>,
    skip_errors: bool,
    rescan: bool,
    ctx: &'a mut Context<'c>,
    /// Next source to be taken.
    next: usize,
    current: Option<Current>,
    bad: Vec<(usize, Error)>,
    refused: BTreeMap<String, String>,
    seen_in: BTreeMap<String, u64>,
    scanned: u64,
    looked_at: u64,
    counts: [u64; 3],
    uncommitted: (u64, u64),
    /// Arrays that are in the store.
    declared: BTreeSet<String>,
    parts: Parts,
    /// Whether a source that the store does not have is an error: only a plan is made.
    plan_only: bool,
    new_dimension: Option<NewDimension>,
    /// Of arrays in the store: their chunks, and whether these can be cut into pieces.
    grids: HashMap<String, (Vec<u64>, bool)>,
    /// Chunks of before, of arrays that were cut for the current source.
    uncut: Vec<(String, Vec<u64>)>,
    /// What `meta.plan` will say.
    said: Option<String>,
}

/// The source whose rows are being written.
struct Current {
    facts: SourceFacts,
    id: SourceId,
    /// Name in the store of each array of `facts`.
    names: Vec<String>,
    /// How its chunks are cut, for each array of `facts`.
    cuts: Vec<Option<Cut>>,
    counts: [u64; 3],
}

/// Reads `NAME` and `NAME=NEW`.
pub(super) fn parse_selection(list: &[String]) -> Result<BTreeMap<String, String>> {
    let mut selection = BTreeMap::new();
    let mut targets = BTreeSet::new();
    for item in list {
        let (name, new) = item.split_once('=').unwrap_or((item, item));
        let (name, new) = (name.strip_prefix('/').unwrap_or(name), new.strip_prefix('/').unwrap_or(new));
        if name.is_empty() || new.is_empty() {
            return Err(Error::Invalid(format!("--array {item}: it is NAME or NAME=NEW")));
        }
        if selection.insert(name.to_owned(), new.to_owned()).is_some() || !targets.insert(new.to_owned()) {
            return Err(Error::Invalid(format!("--array {item}: that array is given twice")));
        }
    }
    Ok(selection)
}

fn run(args: &Args, ctx: &mut Context<'_>) -> Result<String> {
    let started = Instant::now();
    let mut selection = parse_selection(args.list("array"))?;
    let (append, overwrite) = (args.flag("append"), args.flag("overwrite"));
    if append && overwrite {
        return Err(Error::Invalid("--append and --overwrite exclude each other".into()));
    }
    let masked = match args.text("masked-chunks") {
        None | Some("fail") => MaskedChunks::Fail,
        Some("inline") => MaskedChunks::Inline,
        Some(other) => return Err(Error::Invalid(format!("--masked-chunks {other}: it is fail or inline"))),
    };
    let threads = match args.integer("num-threads") {
        None => std::thread::available_parallelism().map_or(1, usize::from),
        Some(n) if (1..=1024).contains(&n) => n as usize,
        Some(n) => return Err(Error::Invalid(format!("--num-threads {n}: it is a number from 1 to 1024"))),
    };
    let split_contiguous = match args.text("split-contiguous") {
        None => None,
        Some(text) => Some(parse_size(text).filter(|n| *n > 0).ok_or_else(|| {
            Error::Invalid(format!("--split-contiguous {text}: it is a number of bytes, or with KB, MB or GB"))
        })?),
    };
    let options = ScanOptions { masked, split_contiguous };
    if let Some(of) = args.text("of").filter(|of| !of.eq_ignore_ascii_case("MDIMREFS")) {
        return Err(Error::Invalid(format!("--of {of} needs GDAL")));
    }
    let output = args.required("output")?;
    if output.starts_with("/vsi") {
        return Err(Error::Invalid(format!("{output}: a store is written to a local file; copy it from there")));
    }
    let inputs = inputs::resolve(ctx.opener.as_ref(), args.list("input"))?;
    // A VRT that can't be a plan is refused before anything is written.
    let parsed = match &inputs {
        Inputs::Vrt { path, xml } => {
            let mut mosaic = vrt::parse(path, xml)?;
            for source in &mut mosaic.sources {
                *source = inputs::source_name(source)?;
            }
            Some(mosaic)
        }
        Inputs::Files(_) => None,
    };
    let exists = Path::new(output).exists();
    let mut store = if append && exists { Writer::open(output)? } else { Writer::create(output, overwrite)? };
    let old = if append && exists { Old::read(&mut store)? } else { Old::default() };

    let mut notes = Vec::new();
    let (mode, names) = match (inputs, parsed) {
        (Inputs::Vrt { path, .. }, Some(mosaic)) => {
            if selection.is_empty() {
                selection = old.selection(&mosaic, &mut notes);
            }
            let builder = Builder::new(mosaic, &selection)?;
            store.set_meta("plan", Some(&path))?;
            let names = builder.sources().to_vec();
            (Mode::Vrt(Box::new(builder)), names)
        }
        (Inputs::Files(names), _) => {
            let alone = names.len() == 1 && old.sources.keys().all(|s| *s == names[0]);
            let mode = if alone {
                store.set_meta("plan", None)?;
                Mode::One(None)
            } else {
                Mode::Physical(old.references())
            };
            (mode, names)
        }
        (Inputs::Vrt { path, .. }, None) => return Err(Error::Invalid(format!("{path}: can't be read as a VRT"))),
    };
    let run = Run { selection, skip_errors: args.flag("skip-errors"), rescan: args.flag("rescan"), ..Run::default() };
    Job::new(store, mode, old, names, run, ctx).run(threads, options, notes, started)
}

/// Choices of a [`Job`].
#[derive(Default)]
struct Run {
    selection: BTreeMap<String, String>,
    skip_errors: bool,
    rescan: bool,
    plan_only: bool,
    new_dimension: Option<NewDimension>,
}

/// Gives a store the plan of `mosaic`, whose sources were scanned into it; a transaction has begun. `said` is what `meta.plan` says of it.
///
/// # Errors
/// [`Error::Plan`] if a source was not scanned, or as for `get-refs` of a mosaic VRT.
pub(super) fn plan(
    mut store: Writer,
    mosaic: Mosaic,
    mut selection: BTreeMap<String, String>,
    new_dimension: Option<NewDimension>,
    said: &str,
    ctx: &mut Context<'_>,
) -> Result<String> {
    let started = Instant::now();
    let old = Old::read(&mut store)?;
    let mut notes = Vec::new();
    let unknown: Vec<&str> =
        mosaic.sources.iter().map(String::as_str).filter(|s| !old.sources.contains_key(*s)).collect();
    if !unknown.is_empty() {
        let list: Vec<String> = unknown.iter().take(NAMED).map(|s| format!("\n  {s}")).collect();
        return Err(Error::Plan(format!(
            "{} of {} sources are not in the store: get-refs with --append scans them{}",
            unknown.len(),
            mosaic.sources.len(),
            list.concat()
        )));
    }
    if selection.is_empty() {
        selection = old.selection(&mosaic, &mut notes);
    }
    let builder = Builder::new(mosaic, &selection)?;
    let names = builder.sources().to_vec();
    let run = Run { selection, plan_only: true, new_dimension, ..Run::default() };
    let mut job = Job::new(store, Mode::Vrt(Box::new(builder)), old, names, run, ctx);
    job.said = Some(said.to_owned());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    job.run(threads, ScanOptions { masked: MaskedChunks::Fail, split_contiguous: None }, notes, started)
}

impl<'a, 'c> Job<'a, 'c> {
    fn new(store: Writer, mode: Mode, old: Old, names: Vec<String>, run: Run, ctx: &'a mut Context<'c>) -> Job<'a, 'c> {
        let referenced = || old.arrays.values().filter(|a| a.storage == Storage::Referenced);
        let declared = referenced().map(|a| a.name.clone()).collect();
        let can_be_cut = |a: &ArrayDesc| a.codec.is_empty() && a.dtype.kind != Kind::VlenUtf8;
        let grids = referenced().map(|a| (a.name.clone(), (a.chunks.clone(), can_be_cut(a)))).collect();
        let Run { selection, skip_errors, rescan, plan_only, new_dimension } = run;
        Job {
            store,
            mode,
            old,
            depths: Vec::new(),
            task_sources: Vec::new(),
            names,
            selection,
            skip_errors,
            rescan,
            ctx,
            next: 0,
            current: None,
            bad: Vec::new(),
            refused: BTreeMap::new(),
            seen_in: BTreeMap::new(),
            scanned: 0,
            looked_at: 0,
            counts: [0; 3],
            uncommitted: (0, 0),
            declared,
            parts: Parts::default(),
            plan_only,
            new_dimension,
            grids,
            uncut: Vec::new(),
            said: None,
        }
    }

    fn run(mut self, threads: usize, options: ScanOptions, mut notes: Vec<String>, started: Instant) -> Result<String> {
        let tasks = self.tasks()?;
        let opener = std::sync::Arc::clone(&self.ctx.opener);
        if !self.plan_only {
            self.store.begin()?;
        }
        if let Err(e) = physical::scan_all(&opener, &tasks, threads, options, &mut self) {
            return Err(self.abandon(e));
        }
        self.finish(&mut notes, started)
    }
}

impl Old {
    fn read(store: &mut Writer) -> Result<Old> {
        let arrays: HashMap<_, _> = store.arrays()?.into_iter().map(|a| (a.name.clone(), a)).collect();
        let mut placements: HashMap<SourceId, Vec<(String, Placed)>> = HashMap::new();
        for name in arrays.keys() {
            for p in store.placements(name)? {
                placements.entry(p.source_id).or_default().push((
                    name.clone(),
                    Placed {
                        source: 0,
                        source_array: p.source_array,
                        src_offset: p.src_offset,
                        count: p.count,
                        dest: p.dest,
                    },
                ));
            }
        }
        let (attributes, groups) = store.group_attributes()?;
        let sources = store.sources()?.into_iter().map(|(id, source, stat)| (source, (id, stat))).collect();
        Ok(Old { arrays, sources, placements, attributes, groups })
    }

    /// The arrays that the store has already, by their name in the VRT; empty (all) for a new store.
    fn selection(&self, mosaic: &Mosaic, notes: &mut Vec<String>) -> BTreeMap<String, String> {
        let mut selection = BTreeMap::new();
        let mut others = Vec::new();
        if !self.arrays.values().any(|a| a.kind == ArrayKind::Data) {
            return selection;
        }
        for array in &mosaic.arrays {
            let vrt::Content::Sources(list) = &array.content else { continue };
            let in_source = list.first().map(|s| s.source_array.as_str());
            // An array that was renamed is known by what its placements call it.
            let renamed = self.placements.values().flatten().find(|(n, p)| {
                Some(p.source_array.as_str()) == in_source && *n != array.name && !self.arrays.contains_key(&array.name)
            });
            if self.arrays.contains_key(&array.name) {
                selection.insert(array.name.clone(), array.name.clone());
            } else if let Some((name, _)) = renamed {
                selection.insert(array.name.clone(), name.clone());
            } else {
                others.push(array.name.as_str());
            }
        }
        if !others.is_empty() {
            notes.push(format!("not in the store, and left out (--array adds them): {}", others.join(", ")));
        }
        selection
    }

    fn references(&self) -> HashMap<String, Reference> {
        self.arrays
            .values()
            .filter(|a| a.storage == Storage::Referenced)
            .map(|a| (a.name.clone(), Reference { source: "the store".into(), array: crate::plan::source_array(a) }))
            .collect()
    }
}

impl Job<'_, '_> {
    /// What has to be looked at.
    fn tasks(&mut self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let selected: Vec<String> = self.selection.keys().cloned().collect();
        for number in 0..self.names.len() {
            let source = self.names[number].clone();
            let known = self.old.sources.get(&source).cloned();
            let unchanged = match &known {
                Some((_, stat)) if !self.rescan => self.is_unchanged(&source, stat),
                _ => false,
            };
            let (depth, wanted, coords) = match &self.mode {
                Mode::Vrt(builder) => {
                    let n = number as u32;
                    let arrays = builder.wanted(n);
                    if arrays.is_empty() {
                        self.depths.push(Depth::Known);
                        continue;
                    }
                    let listed: Vec<&str> =
                        arrays.iter().map(|(_, name)| name.as_str()).filter(|a| !builder.is_inline(a)).collect();
                    let have_rows = match &known {
                        Some((id, _)) if unchanged => self.has_rows(&listed, *id)?,
                        _ => false,
                    };
                    // A plan is made of what the sources say, not of an older plan.
                    let placed = have_rows
                        && !self.plan_only
                        && !builder.compares_values(n)
                        && known.as_ref().is_some_and(|(id, _)| self.is_placed(*id, &builder.placements(n)));
                    let depth = match (have_rows, placed) {
                        (_, true) => Depth::Known,
                        (true, false) => Depth::Facts,
                        (false, false) => Depth::Chunks,
                    };
                    let inline = arrays.iter().filter(|(_, n)| builder.is_inline(n)).map(|(a, _)| a.clone()).collect();
                    let wanted = Wanted::Exactly {
                        arrays: arrays.into_iter().map(|(a, _)| a).collect(),
                        inline,
                        values: builder.wanted_values(n),
                    };
                    (depth, wanted, true)
                }
                Mode::One(_) | Mode::Physical(_) => {
                    let wanted = if selected.is_empty() { Wanted::All } else { Wanted::Some(selected.clone()) };
                    let physical = matches!(self.mode, Mode::Physical(_));
                    let have_rows = match &known {
                        Some((id, _)) if unchanged => {
                            let stored: Vec<&str> = self
                                .old
                                .arrays
                                .values()
                                .filter(|a| a.storage == Storage::Referenced)
                                .map(|a| a.name.as_str())
                                .filter(|a| selected.is_empty() || self.selection.values().any(|s| s == a))
                                .collect();
                            !stored.is_empty() && self.has_rows(&stored, *id)?
                        }
                        _ => false,
                    };
                    let depth = match (have_rows, physical) {
                        (true, true) => Depth::Known,
                        (true, false) => Depth::Facts,
                        (false, _) => Depth::Chunks,
                    };
                    (depth, wanted, !physical)
                }
            };
            self.depths.push(depth);
            if depth != Depth::Known {
                self.task_sources.push(number);
                tasks.push(Task { source, wanted, chunks: depth == Depth::Chunks, coords });
            }
        }
        Ok(tasks)
    }

    /// Size and time of change are what they were. Sources that are not on this machine are taken as unchanged: asking
    /// each would be a request for each.
    fn is_unchanged(&self, source: &str, old: &Stat) -> bool {
        // Of a folder nothing is known.
        if *old == Stat::default() {
            return false;
        }
        if !self.ctx.opener.is_local(source) {
            return true;
        }
        self.ctx.opener.stat(source).is_ok_and(|now| now.size == old.size && now.mtime == old.mtime)
    }

    fn has_rows(&self, arrays: &[&str], id: SourceId) -> Result<bool> {
        for array in arrays {
            if !self.old.arrays.contains_key(*array) || !self.store.has_rows(array, id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_placed(&self, id: SourceId, now: &[(&str, Placed)]) -> bool {
        let old = self.old.placements.get(&id).map(Vec::as_slice).unwrap_or_default();
        now.iter().all(|(name, p)| {
            self.old.arrays.get(*name).is_some_and(|a| a.shape.is_some())
                && (p.dest.is_empty() || old.iter().any(|(n, o)| n == name && same_slab(o, p)))
        })
    }

    /// Takes the sources before number `end` that need no look.
    fn take_known(&mut self, end: usize) -> Result<()> {
        while self.next < end {
            let number = self.next;
            self.next += 1;
            if self.depths[number] != Depth::Known {
                continue;
            }
            let Mode::Vrt(builder) = &mut self.mode else { continue };
            if builder.wanted(number as u32).is_empty() {
                continue;
            }
            let Some((id, _)) = self.old.sources.get(&self.names[number]) else { continue };
            let placements = self.old.placements.get(id).map(Vec::as_slice).unwrap_or_default();
            let known = KnownSource {
                arrays: &self.old.arrays,
                placements: placements.iter().map(|(n, p)| (n.as_str(), p.clone())).collect(),
                attributes: &self.old.attributes,
                groups: &self.old.groups,
            };
            if let Err(e) = builder.add_known(number as u32, &known) {
                self.bad.push((number, e));
            }
        }
        Ok(())
    }

    fn open(&mut self, number: usize, stat: &Stat, mut facts: SourceFacts, listed: &[usize]) -> Result<()> {
        let source = &self.names[number];
        let mut names: Vec<String> = facts.arrays.iter().map(|a| a.name.clone()).collect();
        match &mut self.mode {
            Mode::Vrt(builder) => {
                let wanted = builder.wanted(number as u32);
                for name in &mut names {
                    if let Some((_, new)) = wanted.iter().find(|(a, _)| a == name) {
                        name.clone_from(new);
                    }
                }
            }
            Mode::One(_) | Mode::Physical(_) => {
                for (old, new) in &self.selection {
                    if !facts.arrays.iter().any(|a| a.name == *old) && self.names.len() == 1 {
                        let why = self.refused.get(old).cloned();
                        return Err(Error::Plan(
                            why.unwrap_or_else(|| format!("{source}: --array {old}: there is no such data array")),
                        ));
                    }
                    for name in names.iter_mut().filter(|n| *n == old) {
                        name.clone_from(new);
                    }
                }
            }
        }
        if facts.arrays.is_empty() && facts.coords.is_empty() && self.names.len() == 1 {
            let why: Vec<String> = self.refused.values().take(NAMED).map(|why| format!("\n  {why}")).collect();
            return Err(Error::Plan(format!("{source}: it has no array that can be carried{}", why.concat())));
        }
        if let Mode::One(builder) = &mut self.mode {
            let mosaic = identity(source, &facts);
            *builder = Some(Box::new(Builder::new(mosaic, &self.selection)?));
        }
        self.store.savepoint()?;
        let cuts = self.cut(number, &mut facts, &names)?;
        let source = &self.names[number];
        if let Mode::Physical(references) = &self.mode {
            for (array, name) in facts.arrays.iter().zip(&names) {
                if let Some(reference) = references.get(name) {
                    reference.check(name, source, array)?;
                }
            }
        }
        let id = self.store.put_source(source, stat)?;
        self.parts.open(id, &facts.in_parts);
        for position in listed {
            let (array, name) = (&facts.arrays[*position], &names[*position]);
            if self.declared.insert(name.clone()) {
                self.store.put_array(&array.unplanned(name))?;
                let can_be_cut = array.contiguous && array.codec.is_empty() && array.dtype.kind != Kind::VlenUtf8;
                self.grids.insert(name.clone(), (array.chunks.clone(), can_be_cut));
            }
            self.store.delete_rows(name, id)?;
        }
        facts.coords.iter_mut().for_each(|coord| self.intern(coord));
        self.current = Some(Current { facts, id, names, cuts, counts: [0; 3] });
        Ok(())
    }

    /// Makes the chunks of a source without chunks of its own (one run of bytes) those that its arrays have in the store,
    /// where both are made of pieces that are runs of bytes: the store's chunks are cut too, if need be.
    fn cut(&mut self, number: usize, facts: &mut SourceFacts, names: &[String]) -> Result<Vec<Option<Cut>>> {
        let mut cuts = vec![None; facts.arrays.len()];
        for (position, array) in facts.arrays.iter_mut().enumerate() {
            let name = &names[position];
            let Some((stored, can_be_cut)) = self.grids.get(name).cloned() else { continue };
            if stored == array.chunks || !array.contiguous || !array.codec.is_empty() || !can_be_cut {
                continue;
            }
            let Some(pieces) = common_pieces(&stored, &array.chunks) else { continue };
            if self.depths[number] != Depth::Chunks {
                // Its rows are in the store, with the store's chunks.
                if pieces == stored {
                    array.chunks = pieces;
                }
                continue;
            }
            // What else differs is refused before anything is cut.
            let desc = self.store.array(name)?.map(|d| Reference {
                source: "the store".into(),
                array: SourceArray { chunks: array.chunks.clone(), ..crate::plan::source_array(&d) },
            });
            match desc {
                Some(reference) => reference.check(name, &self.names[number], array)?,
                None => continue,
            }
            if pieces != stored {
                self.store.cut_chunks(name, &pieces)?;
                self.uncut.push((name.clone(), stored));
                self.set_chunks(name, &pieces);
            }
            cuts[position] = Some(Cut::new(&array.chunks, &pieces, array.dtype.size as u64));
            array.chunks = pieces;
        }
        Ok(cuts)
    }

    /// Tells everyone which chunks an array of the store has now.
    fn set_chunks(&mut self, name: &str, chunks: &[u64]) {
        if let Some(grid) = self.grids.get_mut(name) {
            grid.0 = chunks.to_vec();
        }
        if let Some(desc) = self.old.arrays.get_mut(name) {
            desc.chunks = chunks.to_vec();
        }
        match &mut self.mode {
            Mode::Vrt(builder) => builder.set_chunks(name, chunks),
            Mode::Physical(references) => {
                if let Some(reference) = references.get_mut(name) {
                    reference.array.chunks = chunks.to_vec();
                }
            }
            Mode::One(_) => {}
        }
    }

    /// Equal coordinates of many sources are held once.
    fn intern(&self, coord: &mut std::sync::Arc<crate::plan::axis::CoordValues>) {
        if let Some(last) = self.current.as_ref().and_then(|c| c.facts.coords.iter().find(|o| ***o == **coord)) {
            *coord = std::sync::Arc::clone(last);
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let array = &current.facts.arrays[batch.array];
        let (name, rank) = (&current.names[batch.array], array.dims.len());
        // Of an array that gets a new dimension, the scan gives the keys without it.
        let given = batch.keys.len().checked_div(batch.locations.len()).unwrap_or(rank).min(rank);
        let mut key = vec![0; rank];
        for (i, location) in batch.locations.iter().enumerate() {
            key[rank - given..].copy_from_slice(&batch.keys[i * given..(i + 1) * given]);
            let key = key.as_slice();
            let info = Some(array.info.as_str()).filter(|t| !t.is_empty());
            let (row, info, kind) = match location {
                Location::Range { offset, size } => (RowData::Range { offset: *offset, size: *size }, info, 0),
                Location::Inline(data) => (RowData::Inline(data), info, 1),
                Location::Part { offset, size, .. } => (RowData::Range { offset: *offset, size: *size }, info, 0),
                Location::Absent => (RowData::Absent, None, 2),
            };
            let id = match location {
                Location::Part { part, .. } => {
                    self.parts.number(&mut self.store, current.id, (name, &array.name), part)?
                }
                _ => current.id,
            };
            if let Some(cut) = &current.cuts[batch.array] {
                let (store, counts) = (&mut self.store, &mut current.counts);
                cut.each(key, &mut |key, from, size| {
                    let row = match row {
                        RowData::Range { offset, .. } => RowData::Range { offset: offset + from, size },
                        RowData::Inline(data) => {
                            RowData::Inline(data.get(from as usize..(from + size) as usize).unwrap_or_default())
                        }
                        RowData::Absent => RowData::Absent,
                    };
                    counts[kind] += 1;
                    store.put_row(name, id, key, row, info)
                })?;
                continue;
            }
            self.store.put_row(name, id, key, row, info)?;
            current.counts[kind] += 1;
        }
        Ok(())
    }

    /// The current source is whole.
    fn close(&mut self, number: usize) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let added = match &mut self.mode {
            Mode::Vrt(builder) => builder.add(number as u32, &current.facts),
            Mode::One(Some(builder)) => builder.add(0, &current.facts),
            Mode::One(None) => Ok(()),
            Mode::Physical(references) => {
                for (array, name) in current.facts.arrays.iter().zip(&current.names) {
                    references
                        .entry(name.clone())
                        .or_insert_with(|| Reference { source: self.names[number].clone(), array: array.clone() });
                }
                Ok(())
            }
        };
        if let Err(e) = added {
            self.forget()?;
            self.bad.push((number, e));
            return Ok(());
        }
        self.store.release()?;
        self.uncut.clear();
        for name in &current.names {
            *self.seen_in.entry(name.clone()).or_default() += 1;
        }
        for (total, n) in self.counts.iter_mut().zip(current.counts) {
            *total += n;
        }
        match self.depths[number] {
            Depth::Chunks => self.scanned += 1,
            _ => self.looked_at += 1,
        }
        self.uncommitted.0 += 1;
        self.uncommitted.1 += current.counts.iter().sum::<u64>();
        // Kept for `intern`.
        self.current = Some(Current { counts: [0; 3], ..current });
        // A plan is made whole or not at all.
        if !self.plan_only && (self.uncommitted.0 >= SOURCES_A_COMMIT || self.uncommitted.1 >= ROWS_A_COMMIT) {
            self.store.commit()?;
            self.store.begin()?;
            self.uncommitted = (0, 0);
        }
        Ok(())
    }

    /// The scan failed as a whole.
    fn abandon(mut self, error: Error) -> Error {
        // What is committed are whole sources; the rest goes with the writer.
        let _ = self.store.rollback();
        error
    }

    fn bad_sources(&self) -> String {
        let mut text = match self.bad.len() {
            1 => "1 source can't be used:".to_owned(),
            n => format!("{n} of {} sources can't be used:", self.names.len()),
        };
        for (number, error) in self.bad.iter().take(NAMED) {
            let (error, source) = (error.to_string(), &self.names[*number]);
            text.push_str("\n  ");
            if !error.contains(source.as_str()) {
                text.push_str(source);
                text.push_str(": ");
            }
            text.push_str(&error);
        }
        if self.bad.len() > NAMED {
            text.push_str(&format!("\n  and {} more", self.bad.len() - NAMED));
        }
        text
    }

    fn finish(mut self, notes: &mut Vec<String>, started: Instant) -> Result<String> {
        self.take_known(self.names.len())?;
        if !self.bad.is_empty() {
            let text = self.bad_sources();
            if !self.skip_errors || self.bad.len() == self.names.len() {
                let way_out = if self.names.len() > 1 && !self.skip_errors {
                    "\n(--skip-errors goes on without them)"
                } else {
                    ""
                };
                return Err(self.abandon(Error::Plan(format!("{text}{way_out}"))));
            }
            notes.push(text);
        }
        let planned = match std::mem::replace(&mut self.mode, Mode::One(None)) {
            Mode::Vrt(mut builder) => {
                for (number, _) in &self.bad {
                    builder.add_skipped(*number as u32);
                }
                Some(builder.finish()).transpose()
            }
            Mode::One(Some(builder)) => Some(builder.finish()).transpose(),
            Mode::One(None) | Mode::Physical(_) => Ok(None),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(e) => return Err(self.abandon(e)),
        };
        let written = self.write_plan(planned.as_ref(), notes).and_then(|()| self.store.commit());
        if let Err(e) = written {
            return Err(self.abandon(e));
        }
        self.report(planned.as_ref(), notes, started)
    }

    fn write_plan(&mut self, plan: Option<&Plan>, notes: &mut Vec<String>) -> Result<()> {
        let skipped: serde_json::Map<String, serde_json::Value> =
            self.bad.iter().map(|(n, e)| (self.names[*n].clone(), e.to_string().into())).collect();
        let skipped = (!skipped.is_empty()).then(|| serde_json::Value::Object(skipped).to_string());
        self.store.set_meta("skipped", skipped.as_deref())?;
        let Some(plan) = plan else { return Ok(()) };
        if let Some(said) = &self.said {
            self.store.set_meta("plan", Some(said))?;
        }
        let mut ids = HashMap::new();
        for placed in plan.placements.values().flatten() {
            let source = &self.names[placed.source as usize];
            if let Entry::Vacant(entry) = ids.entry(placed.source) {
                entry.insert(match self.store.source(source)? {
                    Some((id, _)) => id,
                    None => self.store.put_source(source, &Stat::default())?,
                });
            }
        }
        self.unplan_others(plan, notes)?;
        for desc in &plan.arrays {
            self.store.put_array(desc)?;
        }
        for (array, list) in &plan.placements {
            let mut rows: Vec<Placement> = Vec::new();
            for placed in list.iter().filter(|p| p.count.iter().all(|c| *c > 0)) {
                rows.extend(self.parts.placements(ids[&placed.source], placed)?);
            }
            self.store.set_placements(array, &rows)?;
        }
        self.store.set_dimensions(&plan.dimensions)?;
        self.store.set_group_attributes(&plan.attributes, &plan.groups)
    }

    /// Arrays of the store that are not in this plan keep theirs only if it goes with the new dimensions.
    fn unplan_others(&mut self, plan: &Plan, notes: &mut Vec<String>) -> Result<()> {
        let size = |name: &str| plan.dimensions.iter().find(|(n, _)| n == name).map(|(_, d): &(_, DimInfo)| d.size);
        for desc in self.store.arrays()? {
            let Some(shape) = desc.shape.clone() else { continue };
            let planned = plan.arrays.iter().any(|a| a.name == desc.name);
            let fits = desc.dims.iter().zip(&shape).all(|(d, s)| size(d).is_none_or(|n| n == *s));
            if planned || fits {
                continue;
            }
            notes.push(format!(
                "array \"{}\" of the store is not in this plan and has other dimensions: it has no plan now",
                desc.name
            ));
            if desc.storage == Storage::Referenced {
                self.store.set_placements(&desc.name, &[])?;
            }
            self.store.put_array(&ArrayDesc { shape: None, ..desc })?;
        }
        Ok(())
    }

    fn report(self, plan: Option<&Plan>, notes: &[String], started: Instant) -> Result<String> {
        let path = self.store.path().to_owned();
        let Job { store, ctx, refused, counts, scanned, looked_at, names, bad, seen_in, plan_only, .. } = self;
        store.finish()?;
        ctx.report(1.0, "")?;
        let [ranges, inline, absent] = counts;
        let mut text = if plan_only && scanned == 0 {
            format!("{} sources placed", names.len())
        } else {
            format!("{scanned} of {} sources scanned, {ranges} chunks", names.len())
        };
        for (n, what) in [(inline, "carried in the store"), (absent, "never written")] {
            if n > 0 {
                text.push_str(&format!(", {n} {what}"));
            }
        }
        text.push_str(&format!(", in {:.1} s\n", started.elapsed().as_secs_f64()));
        let unchanged = names.len() as u64 - scanned - looked_at - bad.len() as u64;
        if unchanged + looked_at > 0 && !plan_only {
            text.push_str(&format!("{} sources were in the store already\n", unchanged + looked_at));
        }
        for (array, why) in &refused {
            (ctx.warn)(&format!("array \"{array}\" is left out: {why}"));
        }
        for note in notes {
            (ctx.warn)(note);
        }
        match plan {
            Some(plan) => {
                for desc in plan.arrays.iter().filter(|a| a.kind == ArrayKind::Data) {
                    let shape = desc.shape.clone().unwrap_or_default();
                    let shape: Vec<String> = desc.dims.iter().zip(shape).map(|(d, s)| format!("{d}: {s}")).collect();
                    text.push_str(&format!("  {} {} ({})\n", desc.name, desc.dtype, shape.join(", ")));
                }
            }
            None => {
                let total = names.len() as u64;
                for (array, n) in &seen_in {
                    let some = if *n < scanned { format!(" (in {n} of {total} sources)") } else { String::new() };
                    text.push_str(&format!("  {array}{some}\n"));
                }
                text.push_str(
                    "The sources have no place in a whole yet: `plan` is next, or get-refs of a mosaic VRT.\n",
                );
            }
        }
        text.push_str(&format!("{path}\n"));
        Ok(text)
    }
}

impl Consumer for Job<'_, '_> {
    fn message(&mut self, task: usize, message: Message) -> Result<bool> {
        let number = self.task_sources[task];
        match message {
            Message::Opened { stat, mut facts, listed, refused } => {
                self.take_known(number)?;
                if let Some(new) = &self.new_dimension {
                    new.apply(&self.names[number], &mut facts);
                }
                self.next = number + 1;
                for (array, why) in refused {
                    self.refused.entry(array).or_insert(why);
                }
                // Once a source is bad, all that is left is to name the others.
                if let Err(e) = self.open(number, &stat, *facts, &listed) {
                    self.forget()?;
                    return self.fail(number, e);
                }
                Ok(true)
            }
            Message::Rows(batch) => match self.write(&batch) {
                Ok(()) => Ok(true),
                Err(e) => {
                    self.forget()?;
                    self.fail(number, e)
                }
            },
            Message::Done => {
                self.close(number)?;
                self.progress(number)?;
                Ok(false)
            }
            Message::Failed(e) => {
                self.forget()?;
                self.fail(number, e)
            }
        }
    }

    fn idle(&mut self) -> Result<()> {
        self.progress(self.next.saturating_sub(1))
    }
}

impl Job<'_, '_> {
    /// Undoes what was written of the current source.
    fn forget(&mut self) -> Result<()> {
        if self.store.in_savepoint() {
            self.store.rollback_to()?;
            for (name, chunks) in std::mem::take(&mut self.uncut) {
                self.set_chunks(&name, &chunks);
            }
            if let Some(current) = &self.current {
                self.parts.forget(current.id);
            }
            self.declared =
                self.store.arrays()?.into_iter().filter(|a| a.storage == Storage::Referenced).map(|a| a.name).collect();
            self.grids.retain(|name, _| self.declared.contains(name));
        }
        Ok(())
    }

    fn fail(&mut self, number: usize, error: Error) -> Result<bool> {
        match error {
            Error::Cancelled | Error::Sqlite { .. } => Err(error),
            error => {
                self.bad.push((number, error));
                self.progress(number)?;
                Ok(false)
            }
        }
    }

    fn progress(&mut self, number: usize) -> Result<()> {
        let total = self.names.len().max(1) as f64;
        self.ctx.report((number as f64 / total).min(0.99), "")
    }
}

/// One file as a mosaic of itself.
fn identity(source: &str, facts: &SourceFacts) -> Mosaic {
    let mut mosaic = Mosaic { sources: vec![source.to_owned()], ..Mosaic::default() };
    // An array along an unlimited dimension may be shorter than the dimension: then it has one of its own length.
    let mut numbers = HashMap::new();
    let of_coords = facts.coords.iter().map(|c| (c.name.clone(), c.len()));
    let of_arrays = facts.arrays.iter().flat_map(|a| &a.dims).map(|d| (d.name.clone(), d.size));
    for (name, size) in of_coords.chain(of_arrays) {
        numbers.entry((name.clone(), size)).or_insert_with(|| {
            let has_variable = facts.coords.iter().any(|c| c.name == name && c.len() == size);
            let variable = has_variable.then(|| name.clone());
            mosaic.dimensions.push(vrt::VrtDimension { name, size, variable, ..Default::default() });
            mosaic.dimensions.len() - 1
        });
    }
    let whole = |name: &str, shape: &[u64]| {
        vrt::Content::Sources(vec![vrt::VrtSource {
            source: 0,
            source_array: name.to_owned(),
            src_offset: vec![0; shape.len()],
            count: shape.to_vec(),
            dest: vec![0; shape.len()],
        }])
    };
    for coord in &facts.coords {
        mosaic.arrays.push(vrt::VrtArray {
            name: coord.name.clone(),
            dims: vec![numbers[&(coord.name.clone(), coord.len())]],
            content: whole(&coord.name, &[coord.len()]),
            ..Default::default()
        });
    }
    for array in &facts.arrays {
        mosaic.arrays.push(vrt::VrtArray {
            name: array.name.clone(),
            dims: array.dims.iter().map(|d| numbers[&(d.name.clone(), d.size)]).collect(),
            content: whole(&array.name, &array.shape()),
            ..Default::default()
        });
    }
    mosaic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections() {
        let of = |list: &[&str]| parse_selection(&list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        let selection = of(&["/sst", "grp/x=y"]).unwrap();
        assert_eq!(selection["sst"], "sst");
        assert_eq!(selection["grp/x"], "y");
        assert!(of(&["sst", "sst"]).is_err());
        assert!(of(&["sst=a", "ice=a"]).is_err());
        assert!(of(&["=a"]).is_err());
        assert!(of(&["sst="]).is_err());
    }
}
