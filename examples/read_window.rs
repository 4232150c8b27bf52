//! Reads one index along the first dimension of an array of a store, without GDAL:
//!
//!     cargo run --release --no-default-features --example read_window -- store.sqlite sst 29
//!
//! The array is of 16-bit integers, as satellite products often are; its scale and offset are applied here.

use mdimrefs::io::LocalOpener;
use mdimrefs::read::{ReadOptions, Reader};
use mdimrefs::store::{OpenOptions, Store};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(name), Some(index)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err("usage: read_window STORE ARRAY INDEX".into());
    };
    let store = Arc::new(Store::open(&path, &OpenOptions::default())?);
    for array in store.arrays() {
        println!("{} {} {:?} in chunks of {:?}", array.name, array.dtype, array.shape, array.chunks);
    }
    let number = store.find(&name).ok_or("there is no such array")?;
    let shape = store.arrays()[number].shape.clone().ok_or("it has no plan yet")?;
    let reader = Reader::new(Arc::clone(&store), Arc::new(LocalOpener), ReadOptions::default())?;

    let (mut start, mut count) = (vec![0; shape.len()], shape);
    (start[0], count[0]) = (index.parse()?, 1);
    let mut values = vec![0i16; count.iter().product::<u64>() as usize];
    reader.read_typed(number, &start, &count, &mut values)?;

    let attrs = &store.arrays()[number].attrs;
    let number = |name: &str, default: f64| attrs.get(name).and_then(|a| a.value.as_f64()).unwrap_or(default);
    let (scale, offset) = (number("scale_factor", 1.0), number("add_offset", 0.0));
    let missing = number("_FillValue", f64::NAN);
    let valid: Vec<f64> =
        values.iter().map(|v| f64::from(*v)).filter(|v| *v != missing).map(|v| v * scale + offset).collect();
    let mean = valid.iter().sum::<f64>() / valid.len() as f64;
    println!("{name}[{index}]: {} of {} values, mean {mean:.3}", valid.len(), values.len());
    Ok(())
}
