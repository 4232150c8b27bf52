//! The store's tables row by row: the chunks of the whole (`refs_<array>`), and the tables of the format as they are.
//!
//! Chunks do not come from the SQL view: the plan is walked box by box, and each box is one look-up in the chunk table.

use super::connection::Db;
use super::names::quote;
use super::read::{Lookup, Store};
use super::rows::{columns, sqlite};
use super::view_name;
use crate::model::Storage;
use crate::{Error, Result};
use rusqlite::types::ValueRef;
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// 64-bit integer.
    Integer,
    /// Truth.
    Boolean,
    /// 64-bit float.
    Real,
    /// UTF-8.
    Text,
    /// Bytes.
    Blob,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: ColumnKind,
}

/// What the coordinate of one dimension says of each chunk along it: least and greatest value of its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkBounds {
    /// Dimension, by its place in the array.
    pub axis: usize,
    /// Its own name: the columns are `<name>_min` and `<name>_max`.
    pub name: String,
    /// By chunk along the dimension.
    pub bounds: Bounds,
}

/// Least and greatest values.
#[derive(Clone, Debug, PartialEq)]
pub enum Bounds {
    /// Numbers; NaN where there is none.
    Numbers(Vec<[f64; 2]>),
    /// Times as ISO 8601 text, which sorts as they do.
    Times(Vec<[String; 2]>),
}

impl Bounds {
    fn kind(&self) -> ColumnKind {
        match self {
            Bounds::Numbers(_) => ColumnKind::Real,
            Bounds::Times(_) => ColumnKind::Text,
        }
    }

    /// The bounds of chunk number `key` as cells.
    pub(super) fn cells(&self, key: usize) -> [Cell<'_>; 2] {
        let number = |v: f64| if v.is_nan() { Cell::Null } else { Cell::Real(v) };
        let cells = match self {
            Bounds::Numbers(list) => list.get(key).map(|b| [number(b[0]), number(b[1])]),
            Bounds::Times(list) => list.get(key).map(|b| [Cell::Text(&b[0]), Cell::Text(&b[1])]),
        };
        cells.unwrap_or([Cell::Null, Cell::Null])
    }

    /// Chunks along the dimension.
    pub(super) fn len(&self) -> usize {
        match self {
            Bounds::Numbers(list) => list.len(),
            Bounds::Times(list) => list.len(),
        }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Number of the array whose chunks these are; None for the tables of the format.
    pub array: Option<usize>,
    /// What its last columns say: where the chunks are.
    pub bounds: Arc<[ChunkBounds]>,
}

impl Table {
    /// The table with columns of where the chunks are, at its end.
    pub fn with_bounds(mut self, bounds: Vec<ChunkBounds>) -> Table {
        for b in &bounds {
            for end in ["min", "max"] {
                self.columns.push(Column { name: format!("{}_{end}", b.name), kind: b.bounds.kind() });
            }
        }
        self.bounds = bounds.into();
        self
    }
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// None.
    Null,
    /// Integer or truth.
    Integer(i64),
    /// Float.
    Real(f64),
    /// UTF-8.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// Chunk keys `lo .. hi` along each dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First.
    pub lo: Vec<u64>,
    /// After the last.
    pub hi: Vec<u64>,
}

impl KeyRange {
    /// Chunks in it, saturating.
    pub fn size(&self) -> u64 {
        self.lo.iter().zip(&self.hi).fold(1u64, |n, (l, h)| n.saturating_mul(h.saturating_sub(*l)))
    }

    /// Hands over parts of at most `most` chunks, in C order.
    fn split(self, most: u64, sink: &mut dyn FnMut(KeyRange)) {
        let axis = (0..self.lo.len()).find(|a| self.hi[*a] - self.lo[*a] > 1);
        let Some(axis) = axis.filter(|_| self.size() > most.max(1)) else { return sink(self) };
        let (from, to) = (self.lo[axis], self.hi[axis]);
        let row = self.size() / (to - from);
        let step = (most / row.max(1)).max(1);
        for start in (from..to).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let mut part = self.clone();
            (part.lo[axis], part.hi[axis]) = (start, (start + step).min(to));
            part.split(most, sink);
        }
    }
}

/// Takes a row: its number (for chunks: the place in the chunk grid in C order), its cells. False ends the listing.
pub type RowSink<'a> = dyn FnMut(i64, &[Cell<'_>]) -> Result<bool> + 'a;

/// Tables of the format, and the types of their columns by name.
const TABLES: [&str; 5] = ["sources", "arrays", "placements", "remap", "meta"];

fn kind_of(name: &str) -> ColumnKind {
    match name {
        "source_id" | "size" | "mtime" => ColumnKind::Integer,
        "values" => ColumnKind::Blob,
        _ => ColumnKind::Text,
    }
}

fn cell<'a>(value: ValueRef<'a>, kind: ColumnKind) -> Cell<'a> {
    match (value, kind) {
        (ValueRef::Null, _) => Cell::Null,
        (ValueRef::Integer(i), ColumnKind::Real) => Cell::Real(i as f64),
        (ValueRef::Integer(i), _) => Cell::Integer(i),
        (ValueRef::Real(f), _) => Cell::Real(f),
        (ValueRef::Text(t), ColumnKind::Blob) => Cell::Blob(t),
        (ValueRef::Text(t), _) => std::str::from_utf8(t).map_or(Cell::Null, Cell::Text),
        (ValueRef::Blob(b), _) => Cell::Blob(b),
    }
}

/// Cells of a row that need no memory of their own.
const FEW: usize = 12;

/// The cells of a row, on the stack if they are few.
struct Cells<'m, 'a> {
    list: &'m mut [Cell<'a>],
    filled: usize,
}

impl<'m, 'a> Cells<'m, 'a> {
    fn new(few: &'m mut [Cell<'a>; FEW], many: &'m mut Vec<Cell<'a>>, size: usize) -> Cells<'m, 'a> {
        if size <= FEW {
            return Cells { list: &mut few[..size], filled: 0 };
        }
        many.resize(size, Cell::Null);
        Cells { list: many, filled: 0 }
    }

    fn push(&mut self, cell: Cell<'a>) {
        if let Some(place) = self.list.get_mut(self.filled) {
            *place = cell;
            self.filled += 1;
        }
    }

    fn get(&self, i: usize) -> Cell<'a> {
        self.list.get(i).copied().unwrap_or(Cell::Null)
    }

    fn list(&self) -> &[Cell<'a>] {
        &self.list[..self.filled]
    }
}

/// A condition on each key, with parameters from number `first` on.
fn within(rank: usize, first: usize) -> String {
    (0..rank).map(|i| format!(" AND dim_{i}>=?{} AND dim_{i}<?{}", first + 2 * i, first + 2 * i + 1)).collect()
}

fn signed(v: u64) -> i64 {
    i64::try_from(v).unwrap_or(i64::MAX)
}

impl Store {
    /// The tables that there are: chunks of each referenced array with a plan first.
    ///
    /// # Errors
    /// [`Error::Sqlite`].
    pub fn tables(&self) -> Result<Vec<Table>> {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let mut tables = Vec::new();
        for (number, desc) in self.arrays().iter().enumerate() {
            if desc.storage != Storage::Referenced || desc.shape.is_none() || desc.dims.is_empty() {
                continue;
            }
            let mut list: Vec<Column> =
                (0..desc.dims.len()).map(|i| column(&format!("dim_{i}"), ColumnKind::Integer)).collect();
            list.extend([
                column("present", ColumnKind::Boolean),
                column("path", ColumnKind::Text),
                column("offset", ColumnKind::Integer),
                column("size", ColumnKind::Integer),
                column("info", ColumnKind::Text),
                column("data", ColumnKind::Blob),
            ]);
            tables.push(Table {
                name: view_name(&desc.name),
                columns: list,
                array: Some(number),
                bounds: Arc::default(),
            });
        }
        let db = self.connect()?;
        for name in TABLES {
            let have = columns(&db, name).map_err(sqlite(self.path()))?;
            if !have.is_empty() {
                let list = have.iter().map(|c| column(c, kind_of(c))).collect();
                tables.push(Table { name: name.to_owned(), columns: list, array: None, bounds: Arc::default() });
            }
        }
        Ok(tables)
    }

    /// Lists the rows of a table; of chunks, those with keys in `range`.
    ///
    /// # Errors
    /// [`Error::Store`] for rows that break the format, [`Error::Sqlite`]; whatever `sink` returns.
    pub fn each_row(&self, table: &Table, range: Option<&KeyRange>, sink: &mut RowSink<'_>) -> Result<()> {
        // A connection of its own: others go on reading.
        let db = self.snapshot()?;
        match table.array {
            Some(array) => self.each_chunk(&db, array, table, range, sink).map(drop),
            None => {
                let list: Vec<String> = table.columns.iter().map(|c| quote(&c.name)).collect();
                let sql = format!("SELECT {} FROM {}", list.join(","), quote(&table.name));
                self.each_of(&db, &sql, &table.columns, sink)
            }
        }
    }

    /// Lists the rows of several ranges of keys, one after the other.
    ///
    /// # Errors
    /// As [`Store::each_row`].
    pub fn each_row_of(&self, table: &Table, ranges: &[KeyRange], sink: &mut RowSink<'_>) -> Result<()> {
        let Some(array) = table.array else { return self.each_row(table, None, sink) };
        let db = self.snapshot()?;
        for range in ranges {
            if !self.each_chunk(&db, array, table, Some(range), sink)? {
                break;
            }
        }
        Ok(())
    }

    /// Lists a few chunks, at once: no other connection is opened, and others wait.
    ///
    /// # Errors
    /// As [`Store::each_row`].
    pub fn few_rows(&self, table: &Table, range: &KeyRange, sink: &mut RowSink<'_>) -> Result<()> {
        let Some(array) = table.array else { return self.each_row(table, None, sink) };
        self.with(|db| self.each_chunk(db, array, table, Some(range), sink).map(drop))
    }

    /// Ranges of keys that together hold the chunks of a table, in the order in which they are listed, in groups of about
    /// `rows` chunks; one group where they can't be told apart at once.
    ///
    /// # Errors
    /// As [`Store::each_row`].
    pub fn parts(&self, table: &Table, range: Option<&KeyRange>, rows: u64) -> Result<Vec<Vec<KeyRange>>> {
        let Some(array) = table.array else { return Ok(vec![Vec::new()]) };
        let Some((lo, hi)) = self.key_range(array, range)? else { return Ok(Vec::new()) };
        let db = self.connect()?;
        let Lookup::Plan { index, .. } = self.lookup(&db, array)? else {
            return Ok(vec![vec![KeyRange { lo, hi }]]);
        };
        let mut groups: Vec<Vec<KeyRange>> = Vec::new();
        let mut room = 0;
        let mut add = |range: KeyRange| {
            let size = range.size();
            match groups.last_mut() {
                Some(group) if size <= room => {
                    group.push(range);
                    room -= size;
                }
                _ => {
                    groups.push(vec![range]);
                    room = rows.saturating_sub(size);
                }
            }
        };
        for b in index.meeting(&lo, &hi) {
            let within = KeyRange {
                lo: lo.iter().zip(&b.lo).map(|(a, b)| *a.max(b)).collect(),
                hi: hi.iter().zip(&b.hi).map(|(a, b)| *a.min(b)).collect(),
            };
            within.split(rows, &mut add);
        }
        Ok(groups)
    }

    /// Number of rows of a table.
    ///
    /// # Errors
    /// As [`Store::each_row`].
    pub fn count_rows(&self, table: &Table, range: Option<&KeyRange>) -> Result<u64> {
        let db = self.snapshot()?;
        let failed = sqlite(self.path());
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        let Some(array) = table.array else {
            let sql = format!("SELECT count(*) FROM {}", quote(&table.name));
            return Ok(count(db.query_row(&sql, [], |r| r.get(0)).map_err(&failed)?));
        };
        let Some((lo, hi)) = self.key_range(array, range)? else { return Ok(0) };
        let Lookup::Plan { index, .. } = self.lookup(&db, array)? else {
            let mut rows = 0;
            self.each_row(table, range, &mut |_, _| {
                rows += 1;
                Ok(true)
            })?;
            return Ok(rows);
        };
        // Boxes do not overlap, so each row is counted once; keys alone are looked at.
        let rank = lo.len();
        let name = &self.arrays()[array].name;
        let sql = format!("SELECT count(*) FROM {} WHERE source_id=?1{}", quote(name), within(rank, 2));
        let mut statement = db.prepare(&sql).map_err(&failed)?;
        let mut total = 0;
        for b in index.meeting(&lo, &hi) {
            db.goes_on();
            statement.raw_bind_parameter(1, b.source_id).map_err(&failed)?;
            for axis in 0..rank {
                let shift = |k: u64| signed(k - b.lo[axis] + b.src[axis]);
                let (from, to) = (lo[axis].max(b.lo[axis]), hi[axis].min(b.hi[axis]));
                statement.raw_bind_parameter(2 * axis + 2, shift(from)).map_err(&failed)?;
                statement.raw_bind_parameter(2 * axis + 3, shift(to)).map_err(&failed)?;
            }
            if let Some(row) = statement.raw_query().next().map_err(&failed)? {
                total += count(row.get(0).map_err(&failed)?);
            }
        }
        Ok(total)
    }

    /// The part of a range of keys that lies in the chunk grid of an array; None if there is none.
    fn key_range(&self, array: usize, range: Option<&KeyRange>) -> Result<Option<(Vec<u64>, Vec<u64>)>> {
        let counts = self.arrays()[array].grid()?.counts();
        let lo: Vec<u64> = (0..counts.len()).map(|a| range.and_then(|r| r.lo.get(a)).copied().unwrap_or(0)).collect();
        let hi: Vec<u64> = (0..counts.len())
            .map(|a| range.and_then(|r| r.hi.get(a)).copied().unwrap_or(u64::MAX).min(counts[a]))
            .collect();
        Ok(lo.iter().zip(&hi).all(|(l, h)| l < h).then_some((lo, hi)))
    }

    /// Runs a query of the user's: its columns, then its rows. `refs_<array>` are those of the target; those of `bounded`
    /// have its columns of bounds.
    ///
    /// # Errors
    /// [`Error::Sqlite`] with SQLite's message, also for a statement that would write.
    pub fn each_of_sql(
        &self,
        sql: &str,
        bounded: &[Table],
        header: &mut dyn FnMut(&[Column]),
        sink: &mut RowSink<'_>,
    ) -> Result<()> {
        let failed = sqlite(self.path());
        let mut db = self.connect()?;
        self.shadow_views(&db, sql, bounded)?;
        db.only_select().map_err(&failed)?;
        let list = {
            let mut statement = db.prepare(sql).map_err(&failed)?;
            if !statement.readonly() {
                return Err(Error::Store {
                    path: self.path().to_owned(),
                    what: "only statements that read can be run".into(),
                });
            }
            let names: Vec<(String, Option<String>)> = statement
                .columns()
                .map(|c| (c.name().to_owned(), c.decl_type().map(str::to_ascii_uppercase)))
                .collect();
            // An expression has no declared type: that of its first value counts.
            let mut rows = statement.query([]).map_err(&failed)?;
            let first = rows.next().map_err(&failed)?;
            names
                .into_iter()
                .enumerate()
                .map(|(i, (name, declared))| {
                    let kind = match declared.as_deref() {
                        Some(t) if t.contains("INT") => ColumnKind::Integer,
                        Some(t) if t.contains("BLOB") => ColumnKind::Blob,
                        Some(t) if t.contains("REAL") || t.contains("FLOA") || t.contains("DOUB") => ColumnKind::Real,
                        Some(_) => ColumnKind::Text,
                        None => match first.and_then(|r| r.get_ref(i).ok()) {
                            Some(ValueRef::Integer(_)) => ColumnKind::Integer,
                            Some(ValueRef::Real(_)) => ColumnKind::Real,
                            Some(ValueRef::Blob(_)) => ColumnKind::Blob,
                            _ => ColumnKind::Text,
                        },
                    };
                    Column { name, kind }
                })
                .collect::<Vec<_>>()
        };
        header(&list);
        self.each_of(&db, sql, &list, sink)
    }

    fn each_of(&self, db: &Db, sql: &str, list: &[Column], sink: &mut RowSink<'_>) -> Result<()> {
        let failed = sqlite(self.path());
        let mut statement = db.prepare(sql).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        let mut number = 0;
        while let Some(row) = rows.next().map_err(&failed)? {
            db.goes_on();
            let mut cells = Vec::with_capacity(list.len());
            for (i, column) in list.iter().enumerate() {
                cells.push(cell(row.get_ref(i).map_err(&failed)?, column.kind));
            }
            if !sink(number, &cells)? {
                return Ok(());
            }
            number += 1;
        }
        Ok(())
    }

    /// A new connection that sees the store as it is now. Without, each statement locks the file anew: in a listing of many
    /// sources that takes longer than the rest.
    fn snapshot(&self) -> Result<Db> {
        let db = self.connect()?;
        db.execute_batch("BEGIN").map_err(sqlite(self.path()))?;
        Ok(db)
    }

    fn each_chunk(
        &self,
        db: &Db,
        array: usize,
        table: &Table,
        range: Option<&KeyRange>,
        sink: &mut RowSink<'_>,
    ) -> Result<bool> {
        let desc = &self.arrays()[array];
        let failed = sqlite(self.path());
        let grid = desc.grid()?;
        let counts = grid.counts();
        let rank = counts.len();
        let Some((lo, hi)) = self.key_range(array, range)? else { return Ok(true) };
        let dims: Vec<String> = (0..rank).map(|i| format!("dim_{i}")).collect();
        let select = |table: &str, path: &str| -> Result<String> {
            let have = columns(db, table).map_err(&failed)?;
            let list: Vec<String> = ["present", "offset", "size", "info", "data"]
                .iter()
                .map(|c| super::rows::column_or_null(&have, c))
                .collect();
            Ok(format!("SELECT {}, {}, {path} FROM {}", dims.join(","), list.join(","), quote(table)))
        };
        let mut left = grid.len();
        let mut emit =
            |row: &rusqlite::Row<'_>, shift: &dyn Fn(usize, u64) -> u64, path: Option<&str>| -> Result<bool> {
                db.goes_on();
                // A view may make rows without end.
                left = left.checked_sub(1).ok_or_else(|| Error::Store {
                    path: self.path().to_owned(),
                    what: format!("{} has more rows than there are chunks", view_name(&desc.name)),
                })?;
                // Most rows are short: no memory is asked for.
                let (mut few, mut many) = ([Cell::Null; FEW], Vec::new());
                let mut cells = Cells::new(&mut few, &mut many, rank + 6 + 2 * table.bounds.len());
                let mut number = 0i64;
                for (axis, count) in counts.iter().enumerate() {
                    let key = match row.get_ref(axis) {
                        Ok(ValueRef::Integer(key)) => shift(axis, u64::try_from(key).unwrap_or(0)),
                        Ok(_) => {
                            return Err(Error::Store {
                                path: self.path().to_owned(),
                                what: format!("{}: dim_{axis} of a row is not an integer", view_name(&desc.name)),
                            });
                        }
                        Err(e) => return Err(failed(e)),
                    };
                    number = number.saturating_mul(signed(*count)).saturating_add(signed(key));
                    cells.push(Cell::Integer(signed(key)));
                }
                // No map_err here: it would copy each value, a tenth of the time of a listing.
                macro_rules! get {
                    ($i:expr) => {
                        match row.get_ref(rank + $i) {
                            Ok(value) => value,
                            Err(e) => return Err(failed(e)),
                        }
                    };
                }
                let offset = cell(get!(1), ColumnKind::Integer);
                let data = cell(get!(4), ColumnKind::Blob);
                let present = match get!(0) {
                    ValueRef::Integer(p) => p != 0,
                    _ => offset != Cell::Null || data != Cell::Null,
                };
                cells.push(Cell::Integer(i64::from(present)));
                cells.push(if offset == Cell::Null { Cell::Null } else { path.map_or(Cell::Null, Cell::Text) });
                cells.push(offset);
                cells.push(cell(get!(2), ColumnKind::Integer));
                cells.push(cell(get!(3), ColumnKind::Text));
                cells.push(data);
                for b in table.bounds.iter() {
                    let Cell::Integer(key) = cells.get(b.axis) else { continue };
                    b.bounds.cells(usize::try_from(key).unwrap_or(usize::MAX)).into_iter().for_each(|c| cells.push(c));
                }
                sink(number, cells.list())
            };
        match self.lookup(db, array)? {
            Lookup::Plan { index, .. } => {
                let sql = format!("{} WHERE source_id=?1{}", select(&desc.name, "NULL")?, within(rank, 2));
                let mut statement = db.prepare(&sql).map_err(&failed)?;
                for b in index.meeting(&lo, &hi) {
                    let path = self.path_of(db, b.source_id)?;
                    statement.raw_bind_parameter(1, b.source_id).map_err(&failed)?;
                    for axis in 0..rank {
                        let (from, to) = (lo[axis].max(b.lo[axis]), hi[axis].min(b.hi[axis]));
                        let shift = |k: u64| signed(k - b.lo[axis] + b.src[axis]);
                        statement.raw_bind_parameter(2 * axis + 2, shift(from)).map_err(&failed)?;
                        statement.raw_bind_parameter(2 * axis + 3, shift(to)).map_err(&failed)?;
                    }
                    let mut rows = statement.raw_query();
                    while let Some(row) = rows.next().map_err(&failed)? {
                        let to_whole = |axis: usize, k: u64| (k + b.lo[axis]).saturating_sub(b.src[axis]);
                        if !emit(row, &to_whole, Some(&path))? {
                            return Ok(false);
                        }
                    }
                }
            }
            Lookup::Whole { .. } => {
                let sql = format!("{} WHERE 1{}", select(&view_name(&desc.name), "path")?, within(rank, 1));
                let mut statement = db.prepare(&sql).map_err(&failed)?;
                for axis in 0..rank {
                    statement.raw_bind_parameter(2 * axis + 1, signed(lo[axis])).map_err(&failed)?;
                    statement.raw_bind_parameter(2 * axis + 2, signed(hi[axis])).map_err(&failed)?;
                }
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().map_err(&failed)? {
                    let stored: Option<String> = row.get(rank + 5).map_err(&failed)?;
                    let path = stored.map(|p| self.remapped(&p));
                    if !emit(row, &|_, k| k, path.as_deref())? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
