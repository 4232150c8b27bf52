//! The store's tables as Arrow record batches.
//!
//! A listing runs in a thread of its own, a few batches ahead of whoever takes them; it ends when they are no longer
//! wanted. What is in memory is bounded, whatever the table's size.

use crate::store::{Cell, Column, ColumnKind, KeyRange, Store, Table};
use crate::{Error, Result};
use arrow_array::builder::{ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What to list.
#[derive(Clone, Debug)]
pub enum Listing {
    /// A table; of chunks, those with keys in the range.
    Table(Table, Option<KeyRange>),
    /// A query, and the tables that have columns of bounds in it.
    Sql(String, Vec<Table>),
}

/// Choices of a listing.
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// Rows of a batch.
    pub rows: usize,
    /// A first column of this name with the number of each row.
    pub number: Option<String>,
    /// Columns to leave out, by name.
    pub without: Vec<String>,
}

/// Batches that wait to be taken.
const AHEAD: usize = 2;
/// A batch ends early when its texts and bytes come to this many bytes.
const BATCH_BYTES: usize = 32 << 20;

/// Chunks that one thread lists at a time, where several do.
const PART: u64 = 64 << 10;
/// So few chunks are listed at once, by no thread.
const FEW: u64 = 1024;
/// Threads that list one table, at most.
const THREADS: usize = 4;

/// What a thread that lists sends.
enum Message {
    Batch(Result<RecordBatch>),
    /// A part ends.
    End,
}

/// Record batches of a listing.
pub struct Batches {
    schema: SchemaRef,
    /// Of each thread. Parts are dealt out in turn.
    receivers: Vec<Receiver<Message>>,
    /// The part that comes next, and how many there are.
    part: usize,
    parts: usize,
}

enum Builder {
    Integer(Int64Builder),
    Boolean(BooleanBuilder),
    Real(Float64Builder),
    Text(StringBuilder),
    Blob(BinaryBuilder),
    Nothing,
}

impl Builder {
    /// With room for so many rows, and bytes of their texts.
    fn new(kind: ColumnKind, rows: usize, bytes: usize) -> Builder {
        match kind {
            ColumnKind::Integer => Builder::Integer(Int64Builder::with_capacity(rows)),
            ColumnKind::Boolean => Builder::Boolean(BooleanBuilder::with_capacity(rows)),
            ColumnKind::Real => Builder::Real(Float64Builder::with_capacity(rows)),
            ColumnKind::Text => Builder::Text(StringBuilder::with_capacity(rows, bytes)),
            ColumnKind::Blob => Builder::Blob(BinaryBuilder::with_capacity(rows, bytes)),
        }
    }

    /// Appends a value; returns the bytes it takes.
    fn push(&mut self, cell: Cell<'_>) -> usize {
        match (self, cell) {
            (Builder::Nothing, _) => {}
            (Builder::Integer(b), Cell::Integer(v)) => b.append_value(v),
            (Builder::Integer(b), Cell::Real(v)) if v.fract() == 0.0 && v.abs() < 9.0e15 => b.append_value(v as i64),
            (Builder::Integer(b), _) => b.append_null(),
            (Builder::Boolean(b), Cell::Integer(v)) => b.append_value(v != 0),
            (Builder::Boolean(b), _) => b.append_null(),
            (Builder::Real(b), Cell::Real(v)) => b.append_value(v),
            (Builder::Real(b), Cell::Integer(v)) => b.append_value(v as f64),
            (Builder::Real(b), _) => b.append_null(),
            (Builder::Text(b), Cell::Text(t)) => {
                b.append_value(t);
                return t.len();
            }
            (Builder::Text(b), Cell::Integer(v)) => b.append_value(v.to_string()),
            (Builder::Text(b), Cell::Real(v)) => b.append_value(v.to_string()),
            (Builder::Text(b), Cell::Blob(t)) => {
                b.append_value(String::from_utf8_lossy(t));
                return t.len();
            }
            (Builder::Text(b), Cell::Null) => b.append_null(),
            (Builder::Blob(b), Cell::Blob(v)) => {
                b.append_value(v);
                return v.len();
            }
            (Builder::Blob(b), Cell::Text(v)) => {
                b.append_value(v);
                return v.len();
            }
            (Builder::Blob(b), _) => b.append_null(),
        }
        8
    }

    /// What has been collected. The next batch is likely to be as large.
    fn finish(&mut self) -> Option<ArrayRef> {
        let (kind, rows, bytes, array): (_, _, _, ArrayRef) = match self {
            Builder::Nothing => return None,
            Builder::Integer(b) => (ColumnKind::Integer, b.len(), 0, Arc::new(b.finish())),
            Builder::Boolean(b) => (ColumnKind::Boolean, b.len(), 0, Arc::new(b.finish())),
            Builder::Real(b) => (ColumnKind::Real, b.len(), 0, Arc::new(b.finish())),
            Builder::Text(b) => (ColumnKind::Text, b.len(), b.values_slice().len(), Arc::new(b.finish())),
            Builder::Blob(b) => (ColumnKind::Blob, b.len(), b.values_slice().len(), Arc::new(b.finish())),
        };
        *self = Builder::new(kind, rows, bytes);
        Some(array)
    }
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Integer => DataType::Int64,
        ColumnKind::Boolean => DataType::Boolean,
        ColumnKind::Real => DataType::Float64,
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Blob => DataType::Binary,
    }
}

fn schema_of(columns: &[Column], options: &BatchOptions) -> SchemaRef {
    let number = options.number.iter().map(|name| Field::new(name, DataType::Int64, false));
    let wanted = columns.iter().filter(|c| !options.without.contains(&c.name));
    let fields = number.chain(wanted.map(|c| Field::new(&c.name, data_type(c.kind), true)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Collects rows into batches.
struct Collector {
    schema: SchemaRef,
    numbers: Option<Int64Builder>,
    builders: Vec<Builder>,
    rows: usize,
    bytes: usize,
    limit: usize,
    sender: SyncSender<Message>,
}

impl Collector {
    fn new(columns: &[Column], options: &BatchOptions, schema: SchemaRef, sender: SyncSender<Message>) -> Collector {
        let builder =
            |c: &Column| if options.without.contains(&c.name) { Builder::Nothing } else { Builder::new(c.kind, 0, 0) };
        Collector {
            schema,
            numbers: options.number.is_some().then(Int64Builder::new),
            builders: columns.iter().map(builder).collect(),
            rows: 0,
            bytes: 0,
            limit: options.rows.max(1),
            sender,
        }
    }

    /// False once nobody wants more.
    fn push(&mut self, number: i64, cells: &[Cell<'_>]) -> Result<bool> {
        if let Some(numbers) = &mut self.numbers {
            numbers.append_value(number);
        }
        for (builder, cell) in self.builders.iter_mut().zip(cells) {
            self.bytes += builder.push(*cell);
        }
        self.rows += 1;
        if self.rows >= self.limit || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(true) }
    }

    fn flush(&mut self) -> Result<bool> {
        let numbers = self.numbers.as_mut().map(|n| Arc::new(n.finish()) as ArrayRef);
        let arrays: Vec<ArrayRef> =
            numbers.into_iter().chain(self.builders.iter_mut().filter_map(Builder::finish)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| Error::Invalid(format!("a batch of rows: {e}")))?;
        (self.rows, self.bytes) = (0, 0);
        Ok(self.sender.send(Message::Batch(Ok(batch))).is_ok())
    }
}

impl Batches {
    /// Starts a listing.
    ///
    /// # Errors
    /// [`Error::Sqlite`] for a query that SQLite does not take; [`Error::Store`] for one that would write.
    pub fn new(store: &Arc<Store>, listing: Listing, options: BatchOptions) -> Result<Batches> {
        let store = Arc::clone(store);
        match listing {
            Listing::Table(table, range) => {
                let schema = schema_of(&table.columns, &options);
                if let Some(range) = range.as_ref().filter(|r| r.size() <= FEW) {
                    // Each batch has a row at least.
                    let (sender, receiver) = sync_channel(FEW as usize + 2);
                    let mut collector = Collector::new(&table.columns, &options, Arc::clone(&schema), sender);
                    let listed = store.few_rows(&table, range, &mut |n, cells| collector.push(n, cells));
                    end(listed, &mut collector);
                    return Ok(Batches { schema, receivers: vec![receiver], part: 0, parts: 1 });
                }
                let parts: Arc<[Vec<KeyRange>]> = store.parts(&table, range.as_ref(), PART)?.into();
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let threads = cpus.min(THREADS).min(parts.len());
                let mut receivers = Vec::new();
                for thread in 0..threads {
                    let (sender, receiver) = sync_channel(AHEAD);
                    receivers.push(receiver);
                    let (store, table, parts) = (Arc::clone(&store), table.clone(), Arc::clone(&parts));
                    let (options, schema) = (options.clone(), Arc::clone(&schema));
                    std::thread::spawn(move || {
                        let mut collector = Collector::new(&table.columns, &options, schema, sender);
                        for part in parts.iter().skip(thread).step_by(threads) {
                            let listed = store.each_row_of(&table, part, &mut |n, cells| collector.push(n, cells));
                            if !end(listed, &mut collector) {
                                break;
                            }
                        }
                    });
                }
                Ok(Batches { schema, receivers, part: 0, parts: parts.len() })
            }
            Listing::Sql(sql, bounded) => {
                let (sender, receiver) = sync_channel(AHEAD);
                let (header, columns) = sync_channel(1);
                std::thread::spawn(move || {
                    let mut collector: Option<Collector> = None;
                    let built = std::cell::RefCell::new(None);
                    let listed = store.each_of_sql(
                        &sql,
                        &bounded,
                        &mut |list| {
                            let schema = schema_of(list, &options);
                            built.replace(Some(Collector::new(list, &options, Arc::clone(&schema), sender.clone())));
                            // The other side waits for it.
                            let _ = header.send(Ok(schema));
                        },
                        &mut |n, cells| match &mut *built.borrow_mut() {
                            Some(collector) => collector.push(n, cells),
                            None => Ok(false),
                        },
                    );
                    if let Some(built) = built.into_inner() {
                        collector = Some(built);
                    }
                    match (listed, collector) {
                        (Err(e), None) => drop(header.send(Err(e))),
                        (listed, Some(mut collector)) => drop(end(listed, &mut collector)),
                        (Ok(()), None) => {}
                    }
                });
                let schema = columns.recv().map_err(|_| Error::Invalid("the query ended before it began".into()))??;
                Ok(Batches { schema, receivers: vec![receiver], part: 0, parts: 1 })
            }
        }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Hands over what is left of a part, or the error; whether more is wanted. Nobody may be there to take it.
fn end(listed: Result<()>, collector: &mut Collector) -> bool {
    let last = match listed {
        Ok(()) if collector.rows == 0 => Ok(true),
        Ok(()) => collector.flush(),
        Err(e) => Err(e),
    };
    match last {
        Ok(wanted) => wanted && collector.sender.send(Message::End).is_ok(),
        Err(e) => {
            let _ = collector.sender.send(Message::Batch(Err(e)));
            false
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.part < self.parts {
            let receiver = self.receivers.get(self.part % self.receivers.len().max(1))?;
            let batch = match receiver.recv() {
                Ok(Message::End) => {
                    self.part += 1;
                    continue;
                }
                Ok(Message::Batch(batch)) => batch,
                Err(_) => Err(Error::Invalid("a thread that lists rows has ended early".into())),
            };
            if batch.is_err() {
                self.part = self.parts;
            }
            return Some(batch.map_err(|e| ArrowError::ExternalError(Box::new(e))));
        }
        None
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Batches::schema(self)
    }
}
