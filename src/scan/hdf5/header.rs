//! Object headers: the messages of a group or dataset.

use super::file::{Cursor, File, UNDEFINED};
use super::fractal_heap::FractalHeap;
use crate::Result;

/// A message, with sharing resolved.
#[derive(Debug)]
pub struct Message {
    /// Type number.
    pub kind: u16,
    /// Bytes.
    pub data: Vec<u8>,
    /// Place in the order in which attributes were made, where that is kept.
    pub order: Option<u16>,
}

/// Message types of the specification.
pub mod kind {
    #![allow(missing_docs)] // the specification's names
    pub const DATASPACE: u16 = 0x01;
    pub const LINK_INFO: u16 = 0x02;
    pub const DATATYPE: u16 = 0x03;
    pub const OLD_FILL: u16 = 0x04;
    pub const FILL: u16 = 0x05;
    pub const LINK: u16 = 0x06;
    pub const EXTERNAL_FILES: u16 = 0x07;
    pub const LAYOUT: u16 = 0x08;
    pub const FILTERS: u16 = 0x0b;
    pub const ATTRIBUTE: u16 = 0x0c;
    pub const SHARED_TABLE: u16 = 0x0f;
    pub const CONTINUATION: u16 = 0x10;
    pub const SYMBOL_TABLE: u16 = 0x11;
    pub const ATTRIBUTE_INFO: u16 = 0x15;
}

/// Continuation blocks of one header, and messages, at most: no real file comes near.
const MAX_BLOCKS: usize = 10_000;
const MAX_MESSAGES: usize = 1_000_000;
/// Shared messages that point to shared messages, at most.
const MAX_SHARING: usize = 8;

/// Reads all messages of an object header.
///
/// # Errors
/// [`crate::Error::Format`] if it is damaged.
pub fn read_header(file: &File, address: u64) -> Result<Vec<Message>> {
    read_shared(file, address, 0)
}

fn read_shared(file: &File, address: u64, depth: usize) -> Result<Vec<Message>> {
    let damaged = || file.damaged(address, "an object header");
    let head = file.read(address, file.available(address).min(64) as usize)?;
    let mut raw = Vec::new();
    let version_2 = head.starts_with(b"OHDR");
    // (address, length without a checksum, bytes before the messages)
    let mut blocks = Vec::new();
    let mut creation_order = false;
    if version_2 {
        let mut c = Cursor::new(&head);
        let parsed = (|| {
            c.skip(5)?;
            let flags = c.byte()?;
            if flags & 0x20 != 0 {
                c.skip(16)?;
            }
            if flags & 0x10 != 0 {
                c.skip(4)?;
            }
            let size = c.uint(1 << (flags & 3))?;
            Some((flags & 4 != 0, c.at as u64, size))
        })();
        let (order, start, size) = parsed.ok_or_else(damaged)?;
        creation_order = order;
        blocks.push((address, size.checked_add(start).ok_or_else(damaged)?, start as usize));
    } else {
        let mut c = Cursor::new(&head);
        let parsed = (|| {
            c.expect(&[1])?;
            c.skip(7)?;
            Some(u64::from(c.u32()?))
        })();
        blocks.push((address.checked_add(16).ok_or_else(damaged)?, parsed.ok_or_else(damaged)?, 0));
    }
    let mut next = 0;
    while let Some((at, length, skip)) = blocks.get(next).copied() {
        next += 1;
        if length > file.available(at) || blocks.len() > MAX_BLOCKS || raw.len() > MAX_MESSAGES {
            return Err(damaged());
        }
        let bytes = if version_2 {
            file.read_checked(at, length, "an object header")?
        } else {
            file.read(at, length as usize)?
        };
        let mut c = Cursor::new(&bytes);
        c.skip(skip).ok_or_else(damaged)?;
        if version_2 && next > 1 && !bytes.starts_with(b"OCHK") {
            return Err(damaged());
        }
        let header = if version_2 { 4 + usize::from(creation_order) * 2 } else { 8 };
        while c.rest().len() >= header {
            let parsed = (|| {
                let (kind, size, flags, order);
                if version_2 {
                    kind = u16::from(c.byte()?);
                    size = c.u16()?;
                    flags = c.byte()?;
                    order = if creation_order { Some(c.u16()?) } else { None };
                } else {
                    kind = c.u16()?;
                    size = c.u16()?;
                    flags = c.byte()?;
                    order = None;
                    c.skip(3)?;
                }
                Some((kind, flags, order, c.take(usize::from(size))?))
            })();
            let (kind, flags, order, data) = parsed.ok_or_else(damaged)?;
            if kind == kind::CONTINUATION {
                let mut c = Cursor::new(data);
                let place = c.address(file.offset_size).zip(c.uint(file.length_size));
                let (at, length) = place.ok_or_else(damaged)?;
                blocks.push(match version_2 {
                    // Its signature comes first, its checksum last.
                    true => (at, length.checked_sub(4).filter(|l| *l >= 4).ok_or_else(damaged)?, 4),
                    false => (at, length, 0),
                });
            } else if kind != 0 {
                raw.push((kind, flags, order, data.to_vec()));
            }
        }
    }
    raw.into_iter()
        .map(|(kind, flags, order, data)| {
            let data = if flags & 2 != 0 { shared(file, kind, &data, depth)? } else { data };
            Ok(Message { kind, data, order })
        })
        .collect()
}

/// The message that a shared message stands for.
///
/// # Errors
/// [`crate::Error::Format`] if it points nowhere.
pub fn shared(file: &File, kind: u16, data: &[u8], depth: usize) -> Result<Vec<u8>> {
    let damaged = || file.damaged(file.root, "a shared message");
    let mut c = Cursor::new(data);
    let version = c.byte().ok_or_else(damaged)?;
    let place = c.byte().ok_or_else(damaged)?;
    if version == 1 {
        c.skip(6).ok_or_else(damaged)?;
    }
    if depth >= MAX_SHARING {
        return Err(damaged());
    }
    if version == 3 && place == 1 {
        let id = c.take(8).ok_or_else(damaged)?;
        return shared_heap(file, kind)?.object(file, id);
    }
    let address = c.address(file.offset_size).ok_or_else(damaged)?;
    let messages = read_shared(file, address, depth + 1)?;
    messages.into_iter().find(|m| m.kind == kind).map(|m| m.data).ok_or_else(damaged)
}

/// The heap of the file's shared messages of one type.
fn shared_heap(file: &File, kind: u16) -> Result<FractalHeap> {
    let damaged = || file.damaged(file.extension, "the table of shared messages");
    if file.extension == UNDEFINED {
        return Err(damaged());
    }
    let table = read_header(file, file.extension)?;
    let message = table.iter().find(|m| m.kind == kind::SHARED_TABLE).ok_or_else(damaged)?;
    let mut c = Cursor::new(&message.data);
    let place = (|| {
        c.skip(1)?;
        Some((c.address(file.offset_size)?, c.byte()?))
    })();
    let (address, count) = place.ok_or_else(damaged)?;
    let entry = 14 + 2 * file.offset_size;
    let bytes = file.read_checked(address, (4 + usize::from(count) * entry) as u64, "the table of shared messages")?;
    let mut c = Cursor::new(&bytes);
    let heap = (|| {
        c.expect(b"SMTB")?;
        for _ in 0..count {
            c.skip(2)?;
            let types = c.u16()?;
            c.skip(4 + 2 + 2 + 2)?;
            c.address(file.offset_size)?;
            let heap = c.address(file.offset_size)?;
            if types & (1 << kind) != 0 {
                return Some(heap);
            }
        }
        None
    })();
    FractalHeap::open(file, heap.ok_or_else(damaged)?)
}
