//! Links of groups: old symbol tables, compact links, dense links.

use super::attribute::text;
use super::btree_v2;
use super::file::{Cursor, File, UNDEFINED};
use super::fractal_heap::FractalHeap;
use super::header::{Message, kind};
use crate::Result;

/// A link of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name.
    pub name: String,
    /// What it names.
    pub target: Target,
}

/// What a link names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object whose header is at this address.
    Hard(u64),
    /// A path in this file, from the group of the link or, with a leading `/`, from the root.
    Soft(String),
    /// An object of another file.
    External {
        /// Name of the file: absolute, or relative to the folder of this one.
        file: String,
        /// Full name of the object in it.
        object: String,
    },
}

/// Links of one file, at most.
pub const MAX_LINKS: usize = 4_000_000;

/// Whether the messages are those of a group.
pub fn is_group(messages: &[Message]) -> bool {
    messages.iter().any(|m| matches!(m.kind, kind::SYMBOL_TABLE | kind::LINK_INFO | kind::LINK))
}

/// The links of a group, by name; those of kinds that the user of a file defines are left out.
///
/// # Errors
/// [`crate::Error::Format`] if they are damaged.
pub fn links(file: &File, messages: &[Message]) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for message in messages {
        match message.kind {
            kind::SYMBOL_TABLE => {
                let mut c = Cursor::new(&message.data);
                let place = c.address(file.offset_size).zip(c.address(file.offset_size));
                let (tree, heap) = place.ok_or_else(|| file.damaged(file.root, "a symbol table message"))?;
                symbol_table(file, tree, heap, &mut links)?;
            }
            kind::LINK => links.extend(parse_link(file, &message.data)?),
            kind::LINK_INFO => {
                let mut c = Cursor::new(&message.data);
                let place = (|| {
                    c.skip(1)?;
                    let flags = c.byte()?;
                    c.skip(if flags & 1 != 0 { 8 } else { 0 })?;
                    Some((c.address(file.offset_size)?, c.address(file.offset_size)?))
                })();
                let (heap, tree) = place.ok_or_else(|| file.damaged(file.root, "a link info message"))?;
                if heap == UNDEFINED || tree == UNDEFINED {
                    continue;
                }
                let heap = FractalHeap::open(file, heap)?;
                btree_v2::records(file, tree, &mut |record| {
                    let id = record.get(4..4 + heap.id_length());
                    let id = id.ok_or_else(|| file.damaged(tree, "a link's record"))?;
                    links.extend(parse_link(file, &heap.object(file, id)?)?);
                    Ok(())
                })?;
            }
            _ => {}
        }
        if links.len() > MAX_LINKS {
            return Err(file.error(file.root, "there are too many links: the file is damaged"));
        }
    }
    links.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(links)
}

fn parse_link(file: &File, data: &[u8]) -> Result<Option<Link>> {
    let mut c = Cursor::new(data);
    let fields = (|| {
        c.expect(&[1])?;
        let flags = c.byte()?;
        let kind = if flags & 8 != 0 { c.byte()? } else { 0 };
        c.skip(if flags & 4 != 0 { 8 } else { 0 })?;
        c.skip(if flags & 0x10 != 0 { 1 } else { 0 })?;
        let length = c.uint(1 << (flags & 3))?;
        let name = c.take(usize::try_from(length).ok()?)?;
        Some((kind, text(name)))
    })();
    let damaged = || file.damaged(file.root, "a link");
    let (kind, name) = fields.ok_or_else(damaged)?;
    let target = match kind {
        0 => c.address(file.offset_size).map(Target::Hard),
        1 => counted(&mut c).map(|path| Target::Soft(text(path))),
        64 => (|| {
            // A byte of version and flags, then two texts that end with NUL.
            let value = counted(&mut c)?.get(1..)?;
            let end = value.iter().position(|b| *b == 0)?;
            Some(Target::External { file: text(&value[..end]), object: text(&value[end + 1..]) })
        })(),
        _ => return Ok(None),
    };
    Ok(Some(Link { name, target: target.ok_or_else(damaged)? }))
}

/// Bytes after a length of two bytes.
fn counted<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = c.u16()?;
    c.take(usize::from(length))
}

fn symbol_table(file: &File, tree: u64, heap: u64, links: &mut Vec<Link>) -> Result<()> {
    let damaged = || file.damaged(heap, "a local heap");
    let head = file.read(heap, 8 + 2 * file.length_size + file.offset_size)?;
    let mut c = Cursor::new(&head);
    let place = (|| {
        c.expect(b"HEAP")?;
        c.skip(4)?;
        let size = c.uint(file.length_size)?;
        c.uint(file.length_size)?;
        Some((c.address(file.offset_size)?, size))
    })();
    let (address, size) = place.ok_or_else(damaged)?;
    if size > file.available(address) {
        return Err(damaged());
    }
    let names = file.read(address, size as usize)?;
    let mut budget = file.size() / 8 + 16;
    symbol_node(file, tree, &names, links, 0, &mut budget)
}

fn symbol_node(
    file: &File,
    address: u64,
    names: &[u8],
    links: &mut Vec<Link>,
    depth: usize,
    budget: &mut u64,
) -> Result<()> {
    let damaged = || file.damaged(address, "a symbol table");
    *budget = budget.checked_sub(1).filter(|_| depth < 64 && links.len() < MAX_LINKS).ok_or_else(damaged)?;
    let head = file.read(address, 8)?;
    let mut c = Cursor::new(&head);
    if c.expect(b"TREE").is_some() {
        let (kind, count) = (|| {
            let kind = c.byte()?;
            c.skip(1)?;
            Some((kind, usize::from(c.u16()?)))
        })()
        .ok_or_else(damaged)?;
        if kind != 0 {
            return Err(damaged());
        }
        let start = 8 + 2 * file.offset_size;
        let bytes = file.read(address, start + count * (file.length_size + file.offset_size) + file.length_size)?;
        let mut c = Cursor::new(&bytes);
        c.skip(start).ok_or_else(damaged)?;
        for _ in 0..count {
            c.skip(file.length_size).ok_or_else(damaged)?;
            let child = c.address(file.offset_size).ok_or_else(damaged)?;
            symbol_node(file, child, names, links, depth + 1, budget)?;
        }
        return Ok(());
    }
    if !head.starts_with(b"SNOD\x01") {
        return Err(damaged());
    }
    let count = usize::from(u16::from_le_bytes([head[6], head[7]]));
    let entry = 2 * file.offset_size + 24;
    let bytes = file.read(address, 8 + count * entry)?;
    for entry in bytes[8..].chunks_exact(entry) {
        let mut c = Cursor::new(entry);
        let fields = (|| {
            let (name, address, cache) = (c.uint(file.offset_size)?, c.address(file.offset_size)?, c.u32()?);
            c.skip(4)?;
            Some((name, address, cache, c.u32()?))
        })();
        let (name, address, cache, value) = fields.ok_or_else(damaged)?;
        let in_heap = |at: u64| usize::try_from(at).ok().and_then(|at| names.get(at..)).map(text).ok_or_else(damaged);
        // Cache type 2: a soft link, its value's place in the heap is in the scratch pad.
        let target = match cache {
            2 => Target::Soft(in_heap(u64::from(value))?),
            _ if address == UNDEFINED => continue,
            _ => Target::Hard(address),
        };
        links.push(Link { name: in_heap(name)?, target });
    }
    Ok(())
}
