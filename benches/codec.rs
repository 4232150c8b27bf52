//! Decoding speed of single codecs, in GB of decoded bytes a second, one thread, data in the processor's cache or near.
//!
//! usage: cargo bench --bench codec

use mdimrefs::codec::{CodecOptions, Pipeline, Scratch};
use mdimrefs::model::{CodecSpec, DType, swap_in_place};
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const SIZE: usize = 2 << 20;
const ROUNDS: usize = 50;

/// The shortest of some runs: what the code can do when nothing else runs.
fn best(mut run: impl FnMut()) -> f64 {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(|_| once(&mut run)).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    let data: Vec<u8> = (0..SIZE as u32).map(|i| ((i / 7).wrapping_mul(2_654_435_761) >> 27) as u8).collect();
    let mut out = vec![0; SIZE];
    let print = |name: &str, time: f64| println!("{name:40} {:7.2} GB/s", SIZE as f64 / 1e9 / time);
    print("copy", best(|| black_box(&mut out).copy_from_slice(black_box(&data))));
    for codec in [
        r#"{"id":"shuffle","elementsize":2}"#,
        r#"{"id":"shuffle","elementsize":4}"#,
        r#"{"id":"shuffle","elementsize":8}"#,
        r#"{"id":"shuffle","elementsize":12}"#,
        r#"{"id":"fletcher32"}"#,
        r#"{"id":"zlib","level":4}"#,
        r#"{"id":"gzip","level":4}"#,
    ] {
        let spec = CodecSpec::parse(&format!(r#"{{"filters":[{codec}]}}"#))?;
        let pipeline = Pipeline::new(&spec, &DType::parse("|u1")?, SIZE, CodecOptions::default())?;
        let encoded = pipeline.encode(&data)?;
        let mut scratch = Scratch::default();
        let mut result = Ok(());
        let time = best(|| result = pipeline.decode_into(black_box(&encoded), 0, black_box(&mut out), &mut scratch));
        result?;
        print(codec, time);
    }
    for size in [2, 4, 8] {
        print(&format!("byte swap of {size}"), best(|| swap_in_place(black_box(&mut out), size)));
    }
    Ok(())
}
