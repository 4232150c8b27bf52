//! Windows, steps, strides, threads.

use super::*;

#[test]
fn windows_steps_and_strides() {
    let folder = Folder::new();
    let (store, arrays) = store(
        &folder,
        vec![
            desc("a", "<i2", &[7, 10, 9], &[2, 4, 9], ZLIB, "-999"),
            desc("b", ">f4", &[13, 11], &[5, 3], "{}", "\"NaN\""),
            desc("c", "<f8", &[40], &[7], r#"{"filters":[{"id":"fletcher32"}]}"#, "1.5"),
            desc("d", "|u1", &[5, 6, 3, 4], &[2, 6, 2, 3], ZLIB, "7"),
            desc("e", ">c16", &[6, 5], &[4, 4], ZLIB, "[1.0,-1.0]"),
            desc("f", "|S5", &[6, 5], &[6, 2], ZLIB, "\"YWI=\""),
            desc("h", ">i2", &[12, 20], &[12, 20], "{}", "3"),
            desc("i", "<u8", &[3, 4], &[100, 100], ZLIB, "3"),
        ],
    );
    let readers = [reader(&store, 1, 0), reader(&store, 3, 1 << 20), reader(&store, 8, 300)];
    let mut random = Random(1);
    for (number, Array { desc, elements }) in arrays.iter().enumerate() {
        let shape = desc.shape.clone().unwrap();
        let rank = shape.len();
        let item = desc.dtype.size;
        for round in 0..150 {
            let (mut start, mut count, mut step) = (vec![0; rank], shape.clone(), vec![1i64; rank]);
            if round > 0 {
                for a in 0..rank {
                    start[a] = random.below(shape[a]);
                    step[a] = random.below(9) as i64 - 4;
                    let most = match step[a] {
                        0 => 3,
                        s if s > 0 => (shape[a] - 1 - start[a]) / s as u64 + 1,
                        s => start[a] / s.unsigned_abs() + 1,
                    };
                    count[a] = 1 + random.below(most);
                    if random.below(3) == 0 {
                        (start[a], count[a], step[a]) = (0, shape[a], 1);
                    }
                }
            }
            // Axes of the buffer in any order, some backwards, some with gaps.
            let mut axes: Vec<usize> = (0..rank).collect();
            let is_plain = random.below(2) == 0;
            for i in (1..rank).rev().filter(|_| !is_plain) {
                axes.swap(i, random.below(i as u64 + 1) as usize);
            }
            let (mut strides, mut base, mut size) = (vec![0isize; rank], 0, item as isize);
            for a in axes.iter().rev() {
                strides[*a] = size;
                size *= count[*a] as isize;
                if !is_plain {
                    size += random.below(2) as isize * 3;
                }
            }
            for a in (0..rank).filter(|_| !is_plain) {
                if random.below(2) == 0 {
                    base += (count[a] as isize - 1) * strides[a];
                    strides[a] = -strides[a];
                }
            }
            let mut expected = vec![0xabu8; size as usize];
            for index in indices(&count) {
                let source: Vec<u64> =
                    (0..rank).map(|a| (start[a] as i64 + index[a] as i64 * step[a]) as u64).collect();
                let place = base + (0..rank).map(|a| index[a] as isize * strides[a]).sum::<isize>();
                expected[place as usize..place as usize + item].copy_from_slice(&elements[flat(&source, &shape)]);
            }
            for reader in &readers {
                let mut buffer = vec![0xabu8; size as usize];
                strided(reader, number, &start, &count, &step, &strides, (&mut buffer, base)).unwrap();
                assert!(buffer == expected, "{} {start:?} {count:?} {step:?} {strides:?}", desc.name);
                if is_plain && step.iter().all(|s| *s == 1) {
                    buffer.fill(0);
                    reader.read(number, &start, &count, &mut buffer).unwrap();
                    assert!(buffer == expected, "{} {start:?} {count:?}", desc.name);
                }
            }
        }
    }
}

#[test]
fn strides_that_overlap() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[4, 40], &[1, 8], ZLIB, "-999")]);
    let mut buffer = [0u8; 80];
    strided(&reader(&store, 4, 0), 0, &[0, 0], &[4, 40], &[1, 1], &[0, 2], (&mut buffer, 0)).unwrap();
    // The last of the elements that share a place, as one loop would have it.
    assert_eq!(buffer.to_vec(), arrays[0].elements[120..].concat());
}

#[test]
fn empty_windows_and_arrays() {
    let folder = Folder::new();
    let (store, _) =
        store(&folder, vec![desc("a", "<i2", &[0, 5], &[1, 5], ZLIB, "0"), desc("b", "<i2", &[4], &[2], ZLIB, "0")]);
    let reader = reader(&store, 2, 0);
    reader.read(0, &[0, 0], &[0, 5], &mut []).unwrap();
    reader.read(1, &[4], &[0], &mut []).unwrap();
    reader.advise(0, &[0, 0], &[0, 5]).unwrap();
    for (array, start, count, size) in
        [(0, vec![0, 0], vec![1, 1], 2), (1, vec![0], vec![5], 10), (1, vec![4], vec![1], 2), (1, vec![0], vec![2], 3)]
    {
        let error = reader.read(array, &start, &count, &mut vec![0; size]).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    assert!(matches!(reader.read(2, &[], &[], &mut []), Err(Error::Invalid(_))));
    assert!(matches!(reader.read(1, &[0, 0], &[1, 1], &mut [0; 2]), Err(Error::Invalid(_))));
}

#[test]
fn many_threads_share_a_reader() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[60, 50], &[7, 9], ZLIB, "-999")]);
    let elements = &arrays[0].elements;
    // Room for a few chunks alone, so that they come and go.
    let reader = reader(&store, 2, 1500);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let reader = &reader;
            scope.spawn(move || {
                let mut random = Random(seed);
                for _ in 0..100 {
                    let start = [random.below(60), random.below(50)];
                    let count = [1 + random.below(60 - start[0]), 1 + random.below(50 - start[1])];
                    if random.below(4) == 0 {
                        reader.advise(0, &start, &count).unwrap();
                    }
                    let mut buffer = vec![0; (count[0] * count[1] * 2) as usize];
                    reader.read(0, &start, &count, &mut buffer).unwrap();
                    let expected: Vec<u8> = indices(&count)
                        .iter()
                        .flat_map(|i| elements[flat(&[start[0] + i[0], start[1] + i[1]], &[60, 50])].clone())
                        .collect();
                    assert!(buffer == expected);
                }
            });
        }
    });
}
