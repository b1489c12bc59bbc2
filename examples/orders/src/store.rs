//! Orders in SQLite. A call blocks its thread: these functions belong on a pool.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result, Row};

use crate::model::{NewOrder, Order};

/// A database and its idle connections. A thread takes one for each call, so there are as many as threads work at once.
pub struct Store {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Store {
    /// Opens the database at `path`, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        let store = Self { path: path.to_owned(), idle: Mutex::default() };
        store.with(|db| {
            db.pragma_update(None, "journal_mode", "wal")?;
            db.execute_batch(TABLE)
        })?;
        Ok(store)
    }

    pub fn add(&self, customer: &str, new: NewOrder) -> Result<Order> {
        let NewOrder { item, count } = new;
        self.with(|db| {
            let mut insert =
                db.prepare_cached("INSERT INTO orders (customer, item, count) VALUES (?, ?, ?)")?;
            let id = insert.insert((customer, &item, count))?;
            Ok(Order { id, item, count, cancelled: false })
        })
    }

    pub fn get(&self, customer: &str, id: i64) -> Result<Option<Order>> {
        self.with(|db| {
            let mut select = db.prepare_cached(
                "SELECT id, item, count, cancelled FROM orders WHERE customer = ? AND id = ?",
            )?;
            select.query_row((customer, id), order).optional()
        })
    }

    /// At most `limit` orders with a larger number than `after`, in the order of their numbers.
    pub fn list(&self, customer: &str, after: i64, limit: u32) -> Result<Vec<Order>> {
        self.with(|db| {
            let mut select = db.prepare_cached(
                "SELECT id, item, count, cancelled FROM orders WHERE customer = ? AND id > ? ORDER BY id LIMIT ?",
            )?;
            select.query_map((customer, after, limit), order)?.collect()
        })
    }

    /// Whether there was such an order that was not cancelled before.
    pub fn cancel(&self, customer: &str, id: i64) -> Result<bool> {
        self.with(|db| {
            let mut update = db.prepare_cached(
                "UPDATE orders SET cancelled = TRUE WHERE customer = ? AND id = ? AND NOT cancelled",
            )?;
            Ok(update.execute((customer, id))? == 1)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let db = taken.map_or_else(|| self.connect(), Ok)?;
        let done = work(&db)?;
        idle().push(db);
        Ok(done)
    }

    fn connect(&self) -> Result<Connection> {
        let db = Connection::open(&self.path)?;
        db.busy_timeout(BUSY)?;
        // With a write-ahead log this loses nothing but the last commits, and only if the machine fails.
        db.pragma_update(None, "synchronous", "normal")?;
        Ok(db)
    }
}

/// How long a write waits for those of other processes.
const BUSY: Duration = Duration::from_secs(5);

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        customer TEXT NOT NULL,
        item TEXT NOT NULL,
        count INTEGER NOT NULL,
        cancelled INTEGER NOT NULL DEFAULT FALSE
    );
    CREATE INDEX IF NOT EXISTS orders_of_customer ON orders (customer, id);";

fn order(row: &Row<'_>) -> Result<Order> {
    Ok(Order { id: row.get(0)?, item: row.get(1)?, count: row.get(2)?, cancelled: row.get(3)? })
}
