//! Windows of numbers, by their Rust type.

use super::Reader;
use crate::model::Kind;
use crate::{Error, Result};

/// A Rust type that holds elements of an array as they are.
pub trait Element: bytemuck::Pod {
    /// The kind of data type that it holds; its size is that of the Rust type.
    const KIND: Kind;
}

macro_rules! elements {
    ($($kind:ident: $($type:ty),*;)*) => { $($(
        impl Element for $type {
            const KIND: Kind = Kind::$kind;
        }
    )*)* };
}

elements! {
    Int: i8, i16, i32, i64;
    UInt: u8, u16, u32, u64;
    Float: f32, f64;
}

impl Reader {
    /// Reads the window that begins at `start` and has `count` elements along each dimension of array number `array`, in C
    /// order, straight into `out`. Packed values (`scale_factor`, `add_offset`) stay packed.
    ///
    /// # Errors
    /// As [`Reader::read`]; [`Error::Invalid`] if the array is of another type.
    pub fn read_typed<T: Element>(&self, array: usize, start: &[u64], count: &[u64], out: &mut [T]) -> Result<()> {
        let desc = self
            .store()
            .arrays()
            .get(array)
            .ok_or_else(|| Error::Invalid(format!("there is no array number {array}")))?;
        if desc.dtype.kind != T::KIND || desc.dtype.size != size_of::<T>() {
            let what = format!("array \"{}\" is of {}, not of {}", desc.name, desc.dtype, std::any::type_name::<T>());
            return Err(Error::Invalid(what));
        }
        self.read(array, start, count, bytemuck::cast_slice_mut(out))
    }
}
