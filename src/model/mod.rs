//! What a store holds, without I/O: data types, chunk grids, chunk references, codecs, attributes, arrays.

mod array;
mod attr;
mod chunk;
mod cut;
mod dtype;
mod fill;

pub use array::{Affine, ArrayDesc, ArrayKind, Dim, DimInfo, Storage};
pub use attr::{Attribute, Attributes, f64_to_json, json_to_f64};
pub use chunk::{ChunkGrid, ChunkKey, CodecSpec};
pub use cut::{Cut, common_pieces};
pub use dtype::{ByteOrder, DType, Kind, MAX_STRING, swap_in_place};
pub use fill::{Fill, float_from_le, float_to_le};
