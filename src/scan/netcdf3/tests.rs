use super::*;

/// A file in memory.
pub struct Memory(pub Vec<u8>);

impl ByteReader for Memory {
    fn size(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        buf.copy_from_slice(&self.0[offset as usize..offset as usize + buf.len()]);
        Ok(())
    }
    fn path(&self) -> &str {
        "memory"
    }
}

/// Writes a header as the specification has it.
struct Build {
    bytes: Vec<u8>,
    version: u8,
}

impl Build {
    fn new(version: u8, records: u64) -> Build {
        let mut b = Build { bytes: vec![b'C', b'D', b'F', version], version };
        b.count(records);
        b
    }
    fn tag(&mut self, tag: u32) -> &mut Build {
        self.bytes.extend(tag.to_be_bytes());
        self
    }
    fn count(&mut self, n: u64) -> &mut Build {
        if self.version == 5 {
            self.bytes.extend(n.to_be_bytes());
        } else {
            self.bytes.extend((n as u32).to_be_bytes());
        }
        self
    }
    fn offset(&mut self, n: u64) -> &mut Build {
        if self.version == 1 {
            self.bytes.extend((n as u32).to_be_bytes());
        } else {
            self.bytes.extend(n.to_be_bytes());
        }
        self
    }
    fn name(&mut self, name: &str) -> &mut Build {
        self.count(name.len() as u64);
        self.bytes.extend(name.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }
    fn var(&mut self, name: &str, dims: &[u64], kind: u32, begin: u64) -> &mut Build {
        self.name(name).count(dims.len() as u64);
        dims.iter().for_each(|d| {
            self.count(*d);
        });
        self.tag(0).count(0).tag(kind).count(0).offset(begin)
    }
}

/// Dimensions time (records), x (3); variables by name, dimensions, type, begin.
fn file(version: u8, records: u64, vars: &[(&str, &[u64], u32, u64)], size: usize) -> Vec<u8> {
    let mut b = Build::new(version, records);
    b.tag(10).count(2).name("time").count(0).name("x").count(3);
    b.tag(0).count(0).tag(11).count(vars.len() as u64);
    for (name, dims, kind, begin) in vars {
        b.var(name, dims, *kind, *begin);
    }
    assert!(b.bytes.len() <= 400);
    b.bytes.resize(size, 0);
    b.bytes
}

fn ranges(bytes: Vec<u8>, array: usize) -> Result<Vec<(u64, u64)>> {
    let index = open(Arc::new(Memory(bytes)))?;
    let mut list = Vec::new();
    index.chunks(array, &mut |c| {
        if let Location::Range { offset, size } = c.location {
            list.push((offset, size));
        }
        Ok(())
    })?;
    Ok(list)
}

#[test]
fn records_are_padded_unless_one_variable_has_them_alone() {
    for version in [1, 2, 5] {
        // 3 shorts are 6 bytes, padded to 8 beside another variable.
        let both: [(&str, &[u64], u32, u64); 3] = [("f", &[1], 5, 400), ("a", &[0, 1], 3, 412), ("b", &[0], 1, 420)];
        let bytes = file(version, 2, &both, 436);
        assert_eq!(ranges(bytes.clone(), 0).unwrap(), [(400, 12)]);
        assert_eq!(ranges(bytes.clone(), 1).unwrap(), [(412, 6), (424, 6)]);
        assert_eq!(ranges(bytes, 2).unwrap(), [(420, 1), (432, 1)]);
        let alone: [(&str, &[u64], u32, u64); 1] = [("a", &[0, 1], 3, 400)];
        assert_eq!(ranges(file(version, 3, &alone, 418), 0).unwrap(), [(400, 6), (406, 6), (412, 6)]);
        // Being written: the file's size says how many.
        let streaming = if version == 5 { u64::MAX } else { u64::from(u32::MAX) };
        assert_eq!(ranges(file(version, streaming, &alone, 415), 0).unwrap(), [(400, 6), (406, 6)]);
        // Cut off.
        let e = ranges(file(version, 3, &alone, 417), 0).unwrap_err().to_string();
        assert!(e.contains("record 2"), "{e}");
    }
}

#[test]
fn overlap_is_damage() {
    let vars: [(&str, &[u64], u32, u64); 2] = [("a", &[1], 4, 400), ("b", &[1], 4, 408)];
    let e = ranges(file(5, 0, &vars, 500), 0).unwrap_err().to_string();
    assert!(e.contains("\"b\" begins before byte 412"), "{e}");
}

#[test]
fn any_damage_is_an_error_or_harmless() {
    let vars: [(&str, &[u64], u32, u64); 3] = [("f", &[1], 5, 400), ("a", &[0, 1], 3, 412), ("b", &[0], 1, 420)];
    for version in [1, 2, 5] {
        let whole = file(version, 2, &vars, 436);
        for at in 0..300 {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let Ok(index) = open(Arc::new(Memory(bytes))) else { continue };
                for array in 0..index.arrays().len() {
                    let mut left = 10_000;
                    let _ = index.chunks(array, &mut |_| {
                        left -= 1;
                        if left == 0 { Err(Error::Cancelled) } else { Ok(()) }
                    });
                    let _ = index.values(array, 1 << 20);
                }
            }
        }
        for length in 0..300 {
            let _ = open(Arc::new(Memory(whole[..length].to_vec()))).map(|index| {
                (0..index.arrays().len()).for_each(|a| {
                    let _ = index.values(a, 1 << 20);
                });
            });
        }
    }
}
