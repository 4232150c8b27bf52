//! Arrays in the store, computed ones, strings.

use super::*;

#[test]
fn coordinates() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    let coordinate = |name: &str, dtype: &str, shape: &[u64]| ArrayDesc {
        kind: ArrayKind::Coord,
        ..desc(name, dtype, shape, shape, "{}", "null")
    };
    let affine = |name: &str, dtype: &str, n: u64, json: &str| ArrayDesc {
        storage: Storage::Affine,
        affine: Some(Affine::parse(json).unwrap()),
        ..coordinate(name, dtype, &[n])
    };
    let inline = |name: &str, dtype: &str, shape: &[u64], values: Vec<u8>| ArrayDesc {
        storage: Storage::Inline,
        values: Some(values),
        ..coordinate(name, dtype, shape)
    };
    let le = |values: &[i16]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let list = vec![
        affine("lat", "<f4", 720, r#"{"start":-89.875,"step":0.25}"#),
        affine("big", "<i8", 3, r#"{"start":9007199254740993,"step":-1}"#),
        affine("over", "|u1", 300, r#"{"start":0,"step":1}"#),
        inline("one", ">i2", &[2, 3], le(&[1, -2, 3, 4, 5, 6])),
        inline("scalar", "<f8", &[], 2.5f64.to_le_bytes().to_vec()),
        inline("names", "|S4", &[2], b"ab\0\0caf\xe9".to_vec()),
        inline("words", "|O", &[3], vlen::join(&["x", "", "日本"]).unwrap()),
    ];
    for desc in &list {
        writer.put_array(desc).unwrap();
    }
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let find = |name: &str| store.find(name).unwrap();
    let lat: Vec<f64> = (0..720).map(|i| -89.875 + 0.25 * f64::from(i)).collect();
    assert_eq!(reader.values_f64(find("lat")).unwrap(), lat);
    let mut buffer = [0; 8];
    strided(&reader, find("lat"), &[10], &[2], &[-10], &[4], (&mut buffer, 0)).unwrap();
    assert_eq!(buffer.to_vec(), [(-87.375f32).to_ne_bytes(), (-89.875f32).to_ne_bytes()].concat());
    let mut buffer = [0; 24];
    reader.read(find("big"), &[0], &[3], &mut buffer).unwrap();
    let big: Vec<u8> =
        [9007199254740993i64, 9007199254740992, 9007199254740991].iter().flat_map(|v| v.to_ne_bytes()).collect();
    assert_eq!(buffer.to_vec(), big);
    assert!(reader.values_f64(find("over")).unwrap_err().to_string().contains("256"));
    // Stored little-endian whatever the type says.
    let mut buffer = [0; 4];
    strided(&reader, find("one"), &[1, 0], &[1, 2], &[1, 2], &[4, 2], (&mut buffer, 0)).unwrap();
    assert_eq!(buffer.to_vec(), [4i16.to_ne_bytes(), 6i16.to_ne_bytes()].concat());
    assert_eq!(reader.values_f64(find("scalar")).unwrap(), [2.5]);
    assert_eq!(reader.read_strings(find("names"), &[0], &[2], &[1]).unwrap(), ["ab", "café"]);
    assert_eq!(reader.read_strings(find("words"), &[2], &[3], &[-1]).unwrap(), ["日本", "", "x"]);
    assert!(reader.read(find("words"), &[0], &[3], &mut []).is_err());
    assert!(reader.read_strings(find("lat"), &[0], &[1], &[1]).is_err());
    assert!(reader.values_f64(find("one")).is_err());
    assert!(matches!(reader.raw_chunk(find("names"), &[0]).unwrap().0, RawChunk::Inline(b) if b.len() == 8));
    assert!(reader.raw_chunk(find("names"), &[1]).is_err());
}

#[test]
fn strings_of_any_length_in_chunks() {
    let folder = Folder::new();
    let path = folder.file("store.sqlite");
    let codec = r#"{"filters":[{"id":"vlen-utf8"}],"compressor":{"id":"zlib"}}"#;
    let desc = desc("w", "|O", &[3, 4], &[2, 3], codec, "\"\"");
    let mut writer = Writer::create(&path, false).unwrap();
    writer.begin().unwrap();
    let source = folder.file("w.bin");
    let pipeline = Pipeline::new(&desc.codec, &desc.dtype, 6, CodecOptions::default()).unwrap();
    let mut file = Vec::new();
    let mut rows = Vec::new();
    for key in indices(&[2, 2]) {
        if key == [1, 0] {
            continue;
        }
        let words: Vec<String> =
            indices(&[2, 3]).iter().map(|i| format!("{}-{}", key[0] * 2 + i[0], key[1] * 3 + i[1])).collect();
        let encoded = pipeline.encode(&vlen::join(&words).unwrap()).unwrap();
        rows.push((key, file.len() as u64, encoded.len() as u64));
        file.extend(encoded);
    }
    std::fs::write(&source, &file).unwrap();
    let id = writer.put_source(&source, &Stat::default()).unwrap();
    writer.put_array(&desc).unwrap();
    for (key, offset, size) in rows {
        writer.put_row("w", id, &key, RowData::Range { offset, size }, None).unwrap();
    }
    let placement = Placement {
        dest: vec![0, 0],
        source_id: id,
        source_array: "w".into(),
        src_offset: vec![0, 0],
        count: vec![3, 4],
    };
    writer.set_placements("w", &[placement]).unwrap();
    writer.commit().unwrap();
    writer.finish().unwrap();
    let store = Arc::new(Store::open(&path, &OpenOptions::default()).unwrap());
    let reader = reader(&store, 1, 0);
    let all = reader.read_strings(0, &[0, 0], &[3, 4], &[1, 1]).unwrap();
    let expected: Vec<String> = indices(&[3, 4])
        .iter()
        .map(|i| if i[0] >= 2 && i[1] < 3 { String::new() } else { format!("{}-{}", i[0], i[1]) })
        .collect();
    assert_eq!(all, expected);
    assert_eq!(reader.read_strings(0, &[1, 3], &[2, 2], &[-1, -3]).unwrap(), ["1-3", "1-0", "0-3", "0-0"]);
}
