//! What tests of commands share: small stores made in code, and running a command.

use super::{ArgKind, ArgValue, Args, Command, Context};
use crate::Result;
use crate::io::{LocalOpener, Stat};
use crate::model::{ArrayDesc, ArrayKind, Attributes, CodecSpec, DType, DimInfo, Fill, Storage};
use crate::store::{Placement, RowData, Writer};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mdimrefs-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command with arguments as `name=value`; a flag is `name`; lists are given by repeating.
pub fn run(command: &Command, arguments: &[&str]) -> Result<String> {
    let mut args = Args::default();
    for spec in command.args {
        if let Some(default) = spec.default {
            let value = match spec.kind {
                ArgKind::Integer => ArgValue::Integer(default.parse().unwrap()),
                _ => ArgValue::Text(default.to_owned()),
            };
            args.0.insert(spec.name.to_owned(), value);
        }
    }
    for argument in arguments {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let spec = command.args.iter().find(|a| a.name == name).unwrap();
        let value = match spec.kind {
            ArgKind::Text | ArgKind::Choice(_) => ArgValue::Text(value.to_owned()),
            ArgKind::Integer => ArgValue::Integer(value.parse().unwrap()),
            ArgKind::Flag => ArgValue::Flag(true),
            ArgKind::TextList => {
                let mut list = args.list(name).to_vec();
                list.push(value.to_owned());
                ArgValue::List(list)
            }
        };
        args.0.insert(name.to_owned(), value);
    }
    let opener = Arc::new(LocalOpener);
    (command.run)(&args, &mut Context { opener, progress: &mut |_, _| true, warn: &mut |_| {} })
}

/// A store of two raw sources `/data/a.bin`, `/data/b.bin` (or in `folder`), each 2 × 4 elements of `<i2` in chunks of
/// 1 × 2, one after the other along `time`; the last chunk of the second is absent, the one before inline.
pub fn small_store(path: &str, folder: &str) {
    let mut store = Writer::create(path, true).unwrap();
    store.begin().unwrap();
    store
        .put_array(&ArrayDesc {
            name: "v".into(),
            kind: ArrayKind::Data,
            storage: Storage::Referenced,
            dims: vec!["time".into(), "x".into()],
            shape: Some(vec![4, 4]),
            chunks: vec![1, 2],
            dtype: DType::parse("<i2").unwrap(),
            fill: Fill::parse(Some("-1")),
            codec: CodecSpec::default(),
            attrs: Attributes::from_json(&serde_json::json!({"units": "K"}), None).unwrap(),
            affine: None,
            values: None,
        })
        .unwrap();
    let mut placements = Vec::new();
    for (n, name) in ["a.bin", "b.bin"].iter().enumerate() {
        let stat = Stat { size: Some(16), mtime: None, etag: None };
        let id = store.put_source(&format!("{folder}/{name}"), &stat).unwrap();
        for chunk in 0..4u64 {
            let key = [chunk / 2, chunk % 2];
            let data = match (n, chunk) {
                (1, 2) => RowData::Inline(&[7, 0, 8, 0]),
                (1, 3) => RowData::Absent,
                _ => RowData::Range { offset: chunk * 4, size: 4 },
            };
            store.put_row("v", id, &key, data, None).unwrap();
        }
        placements.push(Placement {
            dest: vec![2 * n as u64, 0],
            source_id: id,
            source_array: "v".into(),
            src_offset: vec![0, 0],
            count: vec![2, 4],
        });
    }
    store.set_placements("v", &placements).unwrap();
    let size = |size| DimInfo { size, ..DimInfo::default() };
    store.set_dimensions(&[("time".into(), size(4)), ("x".into(), size(4))]).unwrap();
    store.commit().unwrap();
    store.finish().unwrap();
}
