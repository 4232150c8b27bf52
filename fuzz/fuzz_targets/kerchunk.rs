#![no_main]

#[global_allocator]
static ALLOCATOR: mdimrefs_fuzz::Bounded = mdimrefs_fuzz::Bounded;

libfuzzer_sys::fuzz_target!(|data: &[u8]| mdimrefs_fuzz::targets::read_kerchunk(data));
