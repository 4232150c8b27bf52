//! Other forms of a store's references, one file for each form.
//!
//! All take the same way: [`zarr2`] says whether an array goes into Zarr v2 metadata and how; the form's own file streams
//! the references. What a form can't hold is listed and refused, never written wrong.

pub mod kerchunk_json;
mod url;
pub mod zarr2;

use crate::read::Reader;
use crate::{Error, Result};

/// What is exported.
pub struct Export<'a> {
    /// Reads inline and computed arrays.
    pub reader: &'a Reader,
    /// Numbers of the arrays, of which all have a shape.
    pub arrays: Vec<usize>,
    /// Whether an absent chunk is left out, to be read as fill_value. Otherwise it is written as encoded fill where that
    /// makes a difference.
    pub leave_out_absent: bool,
}

/// Chunks of an array at most, where each must be remembered.
const MOST_CHUNKS: u64 = 1 << 32;

/// Chunks of a grid that were seen, in C order.
struct Seen(Vec<u64>);

impl Seen {
    fn new(array: &str, chunks: u64) -> Result<Seen> {
        let words = usize::try_from(chunks.div_ceil(64)).ok().filter(|_| chunks <= MOST_CHUNKS);
        let too_many = || Error::Invalid(format!("array \"{array}\" has {chunks} chunks: too many"));
        let mut list = Vec::new();
        list.try_reserve_exact(words.ok_or_else(too_many)?).map_err(|_| too_many())?;
        list.resize(words.unwrap_or(0), 0);
        Ok(Seen(list))
    }

    /// Marks a chunk; whether it was new.
    fn mark(&mut self, number: u64) -> bool {
        let Some(word) = self.0.get_mut((number / 64) as usize) else { return false };
        let bit = 1u64 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn has(&self, number: u64) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|w| w & (1 << (number % 64)) != 0)
    }
}
