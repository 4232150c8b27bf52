//! Connections to a store that may come from anyone: they read only, and what a query takes is bounded.

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// SQLite counts steps by this many.
const STEPS: u32 = 1_000_000;
/// Steps, in [`STEPS`], without a row: some seconds. A search of a view without a key takes ten to thirty for a million
/// rows.
const MOST: u64 = 500;
/// Bytes of a text or blob, at most: the values of an inline array are the largest that there are.
const LARGEST: i32 = 256 << 20;

/// A connection.
#[derive(Debug)]
pub(super) struct Db {
    connection: Connection,
    steps: Arc<AtomicU64>,
}

impl Deref for Db {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// A path in an SQLite URI.
pub(super) fn escape(path: &str) -> String {
    path.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}

impl Db {
    /// Opens a store.
    pub fn open(path: &str, vfs: Option<&str>) -> rusqlite::Result<Db> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = |name: &str, flags| -> rusqlite::Result<Db> {
            let connection = match vfs {
                Some(vfs) => Connection::open_with_flags_and_vfs(name, flags, vfs)?,
                None => Connection::open_with_flags(name, flags)?,
            };
            let db = Db::bounded(connection)?;
            db.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
            Ok(db)
        };
        match open(path, flags) {
            // A store in WAL mode in a folder that can't be written: nobody can be writing it.
            Err(rusqlite::Error::SqliteFailure(e, _))
                if matches!(e.code, rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
                    && Path::new(path).is_file() =>
            {
                let escaped = escape(path);
                open(&format!("file:{escaped}?immutable=1"), flags | OpenFlags::SQLITE_OPEN_URI)
            }
            other => other,
        }
    }

    /// A connection to nothing.
    pub fn nothing() -> rusqlite::Result<Db> {
        Ok(Db { connection: Connection::open_in_memory()?, steps: Arc::default() })
    }

    fn bounded(mut connection: Connection) -> rusqlite::Result<Db> {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.set_prepared_statement_cache_capacity(64);
        // The file may come from anyone: what is in its schema is not trusted.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.execute_batch("PRAGMA trusted_schema=OFF; PRAGMA query_only=ON; PRAGMA cell_size_check=ON;")?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        let steps = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&steps);
        connection.progress_handler(STEPS as i32, Some(move || counted.fetch_add(1, Ordering::Relaxed) >= MOST))?;
        Ok(Db { connection, steps })
    }

    /// A row came, or another query begins: steps are counted anew.
    pub fn goes_on(&self) {
        self.steps.store(0, Ordering::Relaxed);
    }

    /// From now on only statements that read what is in the store: no pragmas, no attached or copied databases.
    pub fn only_select(&mut self) -> rusqlite::Result<()> {
        self.connection.authorizer(Some(|context: AuthContext<'_>| match context.action {
            AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } | AuthAction::Recursive => {
                Authorization::Allow
            }
            _ => Authorization::Deny,
        }))
    }
}
