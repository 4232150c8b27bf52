//! What is asked of sources, and what the cache spares.

use super::*;

#[test]
fn cache_and_advice() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[40, 40], &[10, 10], ZLIB, "0")]);
    let elements = arrays[0].elements.concat();
    let reader = reader(&store, 2, 1 << 20);
    reader.advise(0, &[0, 0], &[40, 40]).unwrap();
    // What is in the cache needs no source.
    std::fs::remove_file(folder.file("a.bin")).unwrap();
    let mut buffer = vec![0; 3200];
    reader.read(0, &[0, 0], &[40, 40], &mut buffer).unwrap();
    assert_eq!(buffer, elements);
    let mut row = vec![0; 10];
    reader.read(0, &[7, 8], &[1, 5], &mut row).unwrap();
    assert_eq!(row, elements[(7 * 40 + 8) * 2..][..10]);
    let other = super::reader(&store, 2, 0);
    assert!(other.read(0, &[0, 0], &[40, 40], &mut buffer).is_err());
}

/// Sources elsewhere: counts what is asked for.
struct Remote {
    reads: Arc<std::sync::Mutex<Vec<(u64, usize)>>>,
    opened: Arc<AtomicUsize>,
}

struct RemoteFile(Arc<dyn ByteReader>, Arc<std::sync::Mutex<Vec<(u64, usize)>>>);

impl Opener for Remote {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(RemoteFile(LocalOpener.open(path)?, self.reads.clone())))
    }

    fn stat(&self, _path: &str) -> Result<Stat> {
        panic!("a request for nothing")
    }

    fn is_local(&self, _path: &str) -> bool {
        false
    }
}

impl ByteReader for RemoteFile {
    fn size(&self) -> Result<u64> {
        panic!("a request for nothing")
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.1.lock().unwrap().push((offset, buf.len()));
        self.0.read_at(offset, buf)
    }

    fn path(&self) -> &str {
        self.0.path()
    }
}

#[test]
fn remote_sources_cost_few_requests() {
    let folder = Folder::new();
    let (store, arrays) = store(
        &folder,
        vec![desc("a", "<i2", &[60, 50], &[7, 9], ZLIB, "-999"), desc("b", "<i2", &[60, 50], &[60, 50], "{}", "0")],
    );
    let reads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let opened = Arc::new(AtomicUsize::new(0));
    let opener = Arc::new(Remote { reads: reads.clone(), opened: opened.clone() });
    let options = ReadOptions { threads: 4, ..ReadOptions::default() };
    let reader = Reader::new(store.clone(), opener, options).unwrap();
    for (number, array) in arrays.iter().enumerate() {
        let mut buffer = vec![0; 6000];
        reader.read(number, &[0, 0], &[60, 50], &mut buffer).unwrap();
        assert_eq!(buffer, array.elements.concat());
        // Neighbours in one request; nothing is asked twice.
        assert_eq!(reads.lock().unwrap().len(), number + 1);
        assert_eq!(opened.load(Ordering::Relaxed), number + 1);
    }
    reader.read(1, &[3, 3], &[2, 2], &mut [0; 8]).unwrap();
    reader.read(0, &[3, 3], &[2, 2], &mut [0; 8]).unwrap();
    assert_eq!(reads.lock().unwrap().len(), 2, "small arrays stay in the cache");
}

#[test]
fn chunks_without_a_codec_are_read_by_rows() {
    let folder = Folder::new();
    let (store, arrays) = store(&folder, vec![desc("a", "<i2", &[50, 600, 50], &[50, 600, 50], "{}", "0")]);
    let reads = Arc::new(std::sync::Mutex::new(Vec::new()));
    let opener = Counting(reads.clone());
    let options = ReadOptions { threads: 1, ..ReadOptions::default() };
    let reader = Reader::new(store.clone(), Arc::new(opener), options).unwrap();
    let mut buffer = vec![0; 20];
    reader.read(0, &[30, 500, 10], &[1, 1, 10], &mut buffer).unwrap();
    let at = (30 * 600 + 500) * 50 + 10;
    assert_eq!(buffer, arrays[0].elements[at..at + 10].concat());
    assert_eq!(reads.lock().unwrap().drain(..).map(|r| r.1).collect::<Vec<_>>(), [20]);
    let mut buffer = vec![0; 50 * 600 * 50 * 2];
    reader.read(0, &[0, 0, 0], &[50, 600, 50], &mut buffer).unwrap();
    assert!(buffer == arrays[0].elements.concat());
    let all: Vec<_> = reads.lock().unwrap().drain(..).collect();
    assert_eq!(all.iter().map(|r| r.1).sum::<usize>(), buffer.len());
    assert!(all.iter().all(|r| r.1 <= 1 << 20) && all.len() <= 6, "{all:?}");
}

/// Local sources: counts what is asked for.
struct Counting(Arc<std::sync::Mutex<Vec<(u64, usize)>>>);

impl Opener for Counting {
    fn open(&self, path: &str) -> Result<Arc<dyn ByteReader>> {
        Ok(Arc::new(RemoteFile(LocalOpener.open(path)?, self.0.clone())))
    }

    fn stat(&self, path: &str) -> Result<Stat> {
        LocalOpener.stat(path)
    }

    fn is_local(&self, _path: &str) -> bool {
        true
    }
}
