//! Decoded chunks, the most recently used ones, up to a number of bytes.

use crate::model::ChunkKey;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

type Key = (usize, ChunkKey);

/// A cache of decoded chunks.
#[derive(Debug, Default)]
pub struct ChunkCache {
    budget: usize,
    used: usize,
    clock: u64,
    chunks: HashMap<Key, (u64, Arc<Vec<u8>>)>,
    order: BTreeMap<u64, Key>,
}

impl ChunkCache {
    /// A cache of at most `budget` bytes.
    pub fn new(budget: usize) -> ChunkCache {
        ChunkCache { budget, ..ChunkCache::default() }
    }

    /// Bytes it may hold.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// A chunk, if it is held.
    pub fn get(&mut self, array: usize, key: &[u64]) -> Option<Arc<Vec<u8>>> {
        let key = (array, key.to_vec());
        self.clock += 1;
        let (time, data) = self.chunks.get_mut(&key)?;
        self.order.remove(time);
        *time = self.clock;
        self.order.insert(self.clock, key);
        Some(Arc::clone(data))
    }

    /// Holds a chunk; the least recently used ones give way.
    pub fn put(&mut self, array: usize, key: &[u64], data: Arc<Vec<u8>>) {
        if data.len() > self.budget {
            return;
        }
        let key = (array, key.to_vec());
        self.clock += 1;
        self.used += data.len();
        if let Some((time, old)) = self.chunks.insert(key.clone(), (self.clock, data)) {
            self.used -= old.len();
            self.order.remove(&time);
        }
        self.order.insert(self.clock, key);
        while self.used > self.budget
            && let Some((_, key)) = self.order.pop_first()
        {
            if let Some((_, old)) = self.chunks.remove(&key) {
                self.used -= old.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_goes_first() {
        let mut cache = ChunkCache::new(100);
        for i in 0..3 {
            cache.put(0, &[i], Arc::new(vec![i as u8; 40]));
        }
        assert!(cache.get(0, &[0]).is_none());
        assert!(cache.get(0, &[1]).is_some());
        cache.put(0, &[3], Arc::new(vec![3; 40]));
        assert!(cache.get(0, &[2]).is_none() && cache.get(0, &[1]).is_some());
        cache.put(1, &[1], Arc::new(vec![9; 101]));
        assert!(cache.get(1, &[1]).is_none());
        cache.put(0, &[1], Arc::new(vec![7; 60]));
        assert_eq!(cache.get(0, &[1]).unwrap()[0], 7);
        assert!(cache.used <= 100);
    }
}
