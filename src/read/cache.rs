//! Decoded chunks, the last used, within a budget of bytes.

use crate::model::ChunkKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A chunk of an array of the store.
type Key = (usize, ChunkKey);

/// Bytes that an entry costs beside its chunk.
const OVERHEAD: usize = 128;

/// Decoded chunks in the machine's byte order. A chunk larger than the budget is kept only as the only one: rows of a
/// huge chunk read one after the other must not decode it each time.
#[derive(Debug)]
pub(super) struct ChunkCache {
    budget: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    chunks: HashMap<Key, (Arc<Vec<u8>>, u64)>,
    /// By time of the last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
    size: usize,
}

impl ChunkCache {
    pub fn new(budget: usize) -> ChunkCache {
        ChunkCache { budget, entries: Mutex::default() }
    }

    /// Budget in bytes.
    pub fn budget(&self) -> usize {
        self.budget
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_empty(&self) -> bool {
        self.budget == 0 || self.lock().chunks.is_empty()
    }

    pub fn get(&self, array: usize, key: &[u64]) -> Option<Arc<Vec<u8>>> {
        if self.budget == 0 {
            return None;
        }
        let entries = &mut *self.lock();
        let key = (array, key.to_vec());
        let (chunk, time) = entries.chunks.get_mut(&key)?;
        entries.clock += 1;
        entries.order.remove(time);
        *time = entries.clock;
        entries.order.insert(entries.clock, key);
        Some(chunk.clone())
    }

    pub fn insert(&self, array: usize, key: &[u64], chunk: Arc<Vec<u8>>) {
        if self.budget == 0 {
            return;
        }
        let cost = |chunk: &[u8]| chunk.len() + OVERHEAD;
        let entries = &mut *self.lock();
        let key = (array, key.to_vec());
        if entries.chunks.contains_key(&key) {
            return;
        }
        let size = cost(&chunk);
        while entries.size + size > self.budget {
            let Some((_, oldest)) = entries.order.pop_first() else { break };
            if let Some((chunk, _)) = entries.chunks.remove(&oldest) {
                entries.size -= cost(&chunk);
            }
        }
        entries.clock += 1;
        entries.size += size;
        entries.order.insert(entries.clock, key.clone());
        entries.chunks.insert(key, (chunk, entries.clock));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_stay() {
        let cache = ChunkCache::new(3 * (100 + OVERHEAD));
        let chunk = |n: usize| Arc::new(vec![0u8; n]);
        for k in 0..3 {
            cache.insert(0, &[k], chunk(100));
        }
        assert!(cache.get(0, &[0]).is_some());
        cache.insert(1, &[0], chunk(100));
        assert!(cache.get(0, &[1]).is_none());
        assert!(cache.get(0, &[0]).is_some() && cache.get(0, &[2]).is_some() && cache.get(1, &[0]).is_some());
        // Larger than all: alone.
        cache.insert(2, &[0], chunk(10_000));
        assert!(cache.get(2, &[0]).is_some() && cache.get(0, &[0]).is_none());
        cache.insert(0, &[0], chunk(1));
        assert!(cache.get(2, &[0]).is_none());
        assert_eq!(cache.lock().size, 1 + OVERHEAD);
        let off = ChunkCache::new(0);
        off.insert(0, &[0], chunk(1));
        assert!(off.get(0, &[0]).is_none() && off.is_empty());
    }
}
