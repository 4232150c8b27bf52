//! What is damaged, missing, changed, unknown or too large.

use super::*;

/// A chunk error's key, offset and text.
fn chunk_error(error: Error) -> (ChunkKey, u64, String) {
    let text = error.to_string();
    match error {
        Error::Chunk { key, offset, .. } => (key, offset, text),
        _ => panic!("{text}"),
    }
}

#[test]
fn damage_is_an_error_that_names_the_chunk() {
    let folder = Folder::new();
    let descs = || {
        vec![
            desc("z", "<i2", &[8, 8], &[2, 8], ZLIB, "0"),
            desc("n", "<i2", &[8, 8], &[2, 8], "{}", "0"),
            desc("s", "<i2", &[8, 8], &[2, 8], r#"{"filters":[{"id":"fletcher32"}]}"#, "0"),
        ]
    };
    let (store, arrays) = store(&folder, descs());
    let find = |number: usize, key: &[u64]| match reader(&store, 1, 0).raw_chunk(number, key).unwrap().0 {
        RawChunk::Range { path, offset, size } => (path, offset as usize, size as usize),
        other => panic!("{other:?}"),
    };
    let read = |number, threads, options: ReadOptions| {
        let options = ReadOptions { threads, ..options };
        let reader = Reader::new(store.clone(), Arc::new(LocalOpener), options).unwrap();
        let mut buffer = vec![0; 128];
        reader.read(number, &[0, 0], &[8, 8], &mut buffer).map(|()| buffer)
    };
    let default = ReadOptions::default();
    // One bit of chunk (1, 0); in the array without a codec nobody can tell.
    for (number, what) in [(0, "zlib"), (2, "fletcher32")] {
        let (path, offset, size) = find(number, &[1, 0]);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[offset + size / 2] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        for threads in [1, 4] {
            let (key, at, text) = chunk_error(read(number, threads, default.clone()).unwrap_err());
            assert_eq!((key, at as usize), (vec![1, 0], offset));
            assert!(text.contains(what) && text.contains(&path) && text.contains(&format!("size {size}")), "{text}");
        }
        std::fs::write(&path, &good).unwrap();
        read(number, 1, default.clone()).unwrap();
    }
    // Truncated within the last chunk, (3, 0).
    for (number, array) in arrays.iter().enumerate() {
        let (path, offset, size) = find(number, &[3, 0]);
        let good = std::fs::read(&path).unwrap();
        std::fs::write(&path, &good[..offset + size - 1]).unwrap();
        let (_, _, text) = chunk_error(read(number, 1, default.clone()).unwrap_err());
        assert!(text.contains(&format!("size {}, was {}", offset + size - 1, good.len())), "{text}");
        assert!(text.contains("--rescan"), "{text}");
        for threads in [1, 4] {
            let options = ReadOptions { verify: Verify::No, missing_source: MissingSource::Fill, ..default.clone() };
            let (key, _, text) = chunk_error(read(number, threads, options).unwrap_err());
            assert_eq!(key, [3, 0]);
            assert!(text.contains("ends before byte"), "{text}");
        }
        std::fs::write(&path, &good).unwrap();
        // Gone.
        std::fs::remove_file(&path).unwrap();
        let (_, _, text) = chunk_error(read(number, 1, default.clone()).unwrap_err());
        assert!(text.contains(&path), "{text}");
        let options = ReadOptions { missing_source: MissingSource::Fill, ..default.clone() };
        assert_eq!(read(number, 2, options).unwrap(), vec![0; 128]);
        std::fs::write(&path, &good).unwrap();
        assert_eq!(read(number, 2, default.clone()).unwrap(), array.elements.concat());
    }
}

#[test]
fn sources_are_verified_at_each_use() {
    let folder = Folder::new();
    let (store, _) = store(&folder, vec![desc("a", "<i2", &[4], &[2], "{}", "0")]);
    let path = folder.file("a.bin");
    let size = std::fs::metadata(&path).unwrap().len();
    let reader = reader(&store, 1, 0);
    reader.read(0, &[0], &[4], &mut [0; 8]).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(size + 1).unwrap();
    let (_, _, text) = chunk_error(reader.read(0, &[0], &[4], &mut [0; 8]).unwrap_err());
    assert!(text.contains(&format!("size {}, was {size}", size + 1)), "{text}");
}

#[test]
fn unknown_codecs_and_huge_chunks_are_refused_by_name() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    writer.put_array(&desc("a", "<i2", &[4], &[2], r#"{"compressor":{"id":"wavpack"}}"#, "0")).unwrap();
    writer.put_array(&desc("b", "<i2", &[4], &[1 << 40], ZLIB, "0")).unwrap();
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let error = reader.read(0, &[0], &[4], &mut [0; 8]).unwrap_err().to_string();
    assert!(error.contains("\"a\"") && error.contains("\"wavpack\""), "{error}");
    let error = reader.read(1, &[0], &[4], &mut [0; 8]).unwrap_err().to_string();
    assert!(error.contains("\"b\"") && error.contains("too large"), "{error}");
}

#[test]
fn damaged_bytes_never_become_a_panic_or_fill() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[4, 64], &[4, 64], ZLIB, "-999")]);
    let path = folder.file("a.bin");
    let good = std::fs::read(&path).unwrap();
    let expected = arrays[0].elements.concat();
    let reader = reader(&store, 1, 0);
    for at in 16..good.len() {
        let mut bad = good.clone();
        bad[at] = bad[at].wrapping_add(1 + at as u8 % 254);
        std::fs::write(&path, &bad).unwrap();
        let mut buffer = vec![0; expected.len()];
        // Adler-32 sees what deflate does not; a header byte may not matter.
        match reader.read(0, &[0, 0], &[4, 64], &mut buffer) {
            Ok(()) => assert_eq!(buffer, expected, "{at}"),
            Err(error) => assert!(matches!(error, Error::Chunk { .. }), "{error}"),
        }
    }
}
