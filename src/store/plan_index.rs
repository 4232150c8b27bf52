//! The plan, inverted: which source holds a chunk of the whole.
//!
//! Each placement is a box of chunks. Boxes that differ along one axis only are sorted along it and found by bisection;
//! any others are in a k-d tree split at box edges, with a box that crosses a split on both sides.

use super::SourceId;
use crate::model::ChunkKey;
use crate::{Error, Result};

/// A placement in units of chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkBox {
    /// First chunk in the whole, along each axis.
    pub lo: Vec<u64>,
    /// Chunk after the last.
    pub hi: Vec<u64>,
    /// First chunk in the source.
    pub src: Vec<u64>,
    /// The source.
    pub source_id: SourceId,
}

/// Boxes in a leaf, unless splitting does not help.
const LEAF: usize = 8;
const MAX_DEPTH: usize = 64;

/// Finds the boxes that meet a window.
#[derive(Debug)]
pub struct PlanIndex {
    boxes: Vec<ChunkBox>,
    tree: Tree,
}

#[derive(Debug)]
enum Tree {
    /// Boxes sorted along one axis, on which alone they differ.
    Series(usize),
    Node(Node),
}

#[derive(Debug)]
enum Node {
    Leaf(Vec<u32>),
    /// Chunks `< at` along `axis` are on the left.
    Split {
        axis: usize,
        at: u64,
        left: Box<Node>,
        right: Box<Node>,
    },
}

/// Checks one placement against the array and gives its box: rules 2 and 3 of the format's alignment.
///
/// # Errors
/// [`Error::Plan`] saying which axis is not aligned, or reaches beyond the array.
pub fn chunk_box(
    shape: &[u64],
    chunks: &[u64],
    dest: &[u64],
    src_offset: &[u64],
    count: &[u64],
    source_id: SourceId,
) -> Result<ChunkBox> {
    let rank = shape.len();
    if dest.len() != rank || src_offset.len() != rank || count.len() != rank || chunks.len() != rank {
        return Err(Error::Plan(format!(
            "dest {dest:?}, src_offset {src_offset:?}, count {count:?} for {rank} dimensions"
        )));
    }
    let mut found = ChunkBox { lo: vec![0; rank], hi: vec![0; rank], src: vec![0; rank], source_id };
    for axis in 0..rank {
        let c = chunks[axis].max(1);
        let bad = |what: &str| Err(Error::Plan(format!("along dimension {axis}, {what} (chunks are of {c} elements)")));
        let Some(end) = dest[axis].checked_add(count[axis]).filter(|end| *end <= shape[axis]) else {
            return bad(&format!("{} elements at {} reach beyond {}", count[axis], dest[axis], shape[axis]));
        };
        if !src_offset[axis].is_multiple_of(c) {
            return bad(&format!("it begins at element {} of the source, inside a chunk", src_offset[axis]));
        }
        if !dest[axis].is_multiple_of(c) {
            return bad(&format!("it begins at element {}, inside a chunk", dest[axis]));
        }
        if end % c != 0 && end != shape[axis] {
            return bad(&format!("it ends at element {end} of {}, inside a chunk", shape[axis]));
        }
        found.lo[axis] = dest[axis] / c;
        found.hi[axis] = end.div_ceil(c);
        found.src[axis] = src_offset[axis] / c;
    }
    Ok(found)
}

impl ChunkBox {
    fn meets(&self, lo: &[u64], hi: &[u64]) -> bool {
        (0..lo.len()).all(|a| self.lo[a] < hi[a] && lo[a] < self.hi[a])
    }

    /// The chunk of the source that is chunk `key` of the whole.
    pub fn source_key(&self, key: &[u64]) -> ChunkKey {
        (0..key.len()).map(|a| key[a] - self.lo[a] + self.src[a]).collect()
    }
}

impl PlanIndex {
    /// An index over `boxes`. Empty boxes are dropped.
    ///
    /// # Errors
    /// The numbers (in `boxes`) of two that overlap.
    pub fn new(boxes: Vec<ChunkBox>) -> Result<PlanIndex, (usize, usize)> {
        let mut order: Vec<usize> =
            (0..boxes.len()).filter(|i| boxes[*i].lo.iter().zip(&boxes[*i].hi).all(|(l, h)| l < h)).collect();
        let axis = match order.first() {
            None => Some(0),
            Some(first) => {
                let first = &boxes[*first];
                let varies = |a: &usize| {
                    order.iter().any(|i| boxes[*i].lo[*a] != first.lo[*a] || boxes[*i].hi[*a] != first.hi[*a])
                };
                let varying: Vec<usize> = (0..first.lo.len()).filter(varies).collect();
                match varying.as_slice() {
                    [] => Some(0),
                    [one] => Some(*one),
                    _ => None,
                }
            }
        };
        if let Some(axis) = axis {
            let at = |i: usize| boxes[i].lo.get(axis).copied().unwrap_or(0);
            order.sort_by_key(|i| at(*i));
            for pair in order.windows(2) {
                if boxes[pair[0]].hi.get(axis).copied().unwrap_or(1) > at(pair[1]) {
                    return Err((pair[0].min(pair[1]), pair[0].max(pair[1])));
                }
            }
            return Ok(PlanIndex {
                boxes: order.into_iter().map(|i| boxes[i].clone()).collect(),
                tree: Tree::Series(axis),
            });
        }
        let members = order.iter().map(|i| *i as u32).collect();
        let node = build(&boxes, members, 0)?;
        Ok(PlanIndex { boxes, tree: Tree::Node(node) })
    }

    /// Boxes that meet the window `lo .. hi` (chunks), each once.
    pub fn meeting(&self, lo: &[u64], hi: &[u64]) -> Vec<&ChunkBox> {
        match &self.tree {
            Tree::Series(axis) => {
                let (Some(from), Some(to)) = (lo.get(*axis), hi.get(*axis)) else {
                    return self.boxes.iter().collect();
                };
                let start = self.boxes.partition_point(|b| b.hi[*axis] <= *from);
                self.boxes[start..].iter().take_while(|b| b.lo[*axis] < *to).filter(|b| b.meets(lo, hi)).collect()
            }
            Tree::Node(root) => {
                let mut found = Vec::new();
                collect(root, lo, hi, &mut found);
                found.sort_unstable();
                found.dedup();
                found.into_iter().map(|i| &self.boxes[i as usize]).filter(|b| b.meets(lo, hi)).collect()
            }
        }
    }
}

fn collect(node: &Node, lo: &[u64], hi: &[u64], found: &mut Vec<u32>) {
    match node {
        Node::Leaf(members) => found.extend(members),
        Node::Split { axis, at, left, right } => {
            if lo[*axis] < *at {
                collect(left, lo, hi, found);
            }
            if hi[*axis] > *at {
                collect(right, lo, hi, found);
            }
        }
    }
}

fn build(boxes: &[ChunkBox], members: Vec<u32>, depth: usize) -> Result<Node, (usize, usize)> {
    let rank = members.first().map_or(0, |m| boxes[*m as usize].lo.len());
    let mut best: Option<(usize, usize, u64)> = None;
    if members.len() > LEAF && depth < MAX_DEPTH {
        for axis in 0..rank {
            let mut edges: Vec<u64> = members.iter().map(|m| boxes[*m as usize].lo[axis]).collect();
            edges.sort_unstable();
            let at = edges[edges.len() / 2];
            let left = members.iter().filter(|m| boxes[**m as usize].lo[axis] < at).count();
            let right = members.iter().filter(|m| boxes[**m as usize].hi[axis] > at).count();
            // Balance and duplication at once.
            if best.is_none_or(|(worst, ..)| left.max(right) < worst) {
                best = Some((left.max(right), axis, at));
            }
        }
    }
    match best.filter(|(worst, ..)| *worst * 8 <= members.len() * 7) {
        Some((_, axis, at)) => {
            let side = |keep: &dyn Fn(&ChunkBox) -> bool| -> Vec<u32> {
                members.iter().copied().filter(|m| keep(&boxes[*m as usize])).collect()
            };
            let left = build(boxes, side(&|b| b.lo[axis] < at), depth + 1)?;
            let right = build(boxes, side(&|b| b.hi[axis] > at), depth + 1)?;
            Ok(Node::Split { axis, at, left: Box::new(left), right: Box::new(right) })
        }
        None => {
            // Two boxes that share a chunk are in the leaf that holds it.
            for (i, a) in members.iter().enumerate() {
                let a_box = &boxes[*a as usize];
                for b in &members[i + 1..] {
                    if boxes[*b as usize].meets(&a_box.lo, &a_box.hi) {
                        return Err(((*a).min(*b) as usize, (*a).max(*b) as usize));
                    }
                }
            }
            Ok(Node::Leaf(members))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(lo: [u64; 2], hi: [u64; 2], source_id: SourceId) -> ChunkBox {
        ChunkBox { lo: lo.into(), hi: hi.into(), src: vec![0, 0], source_id }
    }

    /// Every chunk looked up, against a search through all boxes.
    fn check(boxes: &[ChunkBox], size: [u64; 2]) {
        let index = PlanIndex::new(boxes.to_vec()).unwrap();
        for y in 0..size[0] {
            for x in 0..size[1] {
                let found: Vec<_> = index.meeting(&[y, x], &[y + 1, x + 1]).iter().map(|b| b.source_id).collect();
                let all: Vec<_> =
                    boxes.iter().filter(|b| b.meets(&[y, x], &[y + 1, x + 1])).map(|b| b.source_id).collect();
                assert_eq!(found, all, "{y} {x}");
            }
        }
        let (lo, hi) = ([1, 1], [size[0] - 1, size[1] - 1]);
        let mut found: Vec<_> = index.meeting(&lo, &hi).iter().map(|b| b.source_id).collect();
        let mut all: Vec<_> = boxes.iter().filter(|b| b.meets(&lo, &hi)).map(|b| b.source_id).collect();
        found.sort_unstable();
        all.sort_unstable();
        assert_eq!(found, all);
    }

    #[test]
    fn series_grids_and_irregular_plans() {
        let series: Vec<_> = (0..50).map(|i| cell([i * 2, 0], [i * 2 + 2, 3], i as i64)).collect();
        check(&series, [100, 3]);
        let grid: Vec<_> =
            (0..400).map(|i| cell([i / 20 * 2, i % 20 * 3], [i / 20 * 2 + 2, i % 20 * 3 + 3], i as i64)).collect();
        check(&grid, [40, 60]);
        // rows of boxes with widths that differ from row to row, and one wide box across
        let mut irregular = vec![cell([30, 0], [31, 64], 9999)];
        for y in 0..30u64 {
            let width = y % 5 + 1;
            irregular
                .extend((0..64 / width).map(|i| cell([y, i * width], [y + 1, (i + 1) * width], (y * 100 + i) as i64)));
        }
        check(&irregular, [32, 64]);
        assert!(PlanIndex::new(Vec::new()).unwrap().meeting(&[0, 0], &[9, 9]).is_empty());
    }

    #[test]
    fn overlap_is_found() {
        let mut series: Vec<_> = (0..50).map(|i| cell([i * 2, 0], [i * 2 + 2, 3], i as i64)).collect();
        series.push(cell([21, 0], [22, 3], 77));
        let (a, b) = PlanIndex::new(series).unwrap_err();
        assert_eq!((a, b), (10, 50));
        let mut grid: Vec<_> = (0..400).map(|i| cell([i / 20, i % 20], [i / 20 + 1, i % 20 + 1], i as i64)).collect();
        grid.push(cell([7, 3], [8, 5], 5));
        assert!(PlanIndex::new(grid).is_err());
    }

    #[test]
    fn alignment() {
        let of = |dest: u64, src: u64, count: u64| chunk_box(&[25], &[10], &[dest], &[src], &[count], 1);
        assert_eq!(of(0, 0, 10).unwrap().hi, [1]);
        assert_eq!(of(20, 10, 5).unwrap(), ChunkBox { lo: vec![2], hi: vec![3], src: vec![1], source_id: 1 });
        for (dest, src, count, part) in [
            (5, 0, 5, "begins at element 5"),
            (0, 5, 10, "of the source"),
            (0, 0, 5, "ends"),
            (20, 0, 6, "beyond"),
            (u64::MAX, 0, 5, "beyond"),
        ] {
            let e = of(dest, src, count).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
        assert_eq!(of(20, 10, 5).unwrap().source_key(&[2]), [1]);
    }
}
