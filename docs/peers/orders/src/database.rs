//! The database: so many calls at once on threads that may block, so many that wait, and for how long.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::orders::OrderError;
use crate::settings::Settings;
use crate::store::Store;

#[derive(Clone)]
pub struct Database {
    store: Arc<Store>,
    /// For what runs and what waits.
    places: Arc<Semaphore>,
    threads: Arc<Semaphore>,
    wait: Duration,
}

impl Database {
    pub fn open(settings: &Settings) -> rusqlite::Result<Self> {
        Ok(Self {
            store: Arc::new(Store::open(&settings.database)?),
            places: Arc::new(Semaphore::new(settings.threads + settings.queue)),
            threads: Arc::new(Semaphore::new(settings.threads)),
            wait: settings.wait,
        })
    }

    /// Runs it on a thread that may block.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, OrderError> + Send + 'static,
    ) -> Result<T, OrderError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| OrderError::Busy)?;
        let thread = timeout(self.wait, Arc::clone(&self.threads).acquire_owned());
        let thread = thread.await.map_err(|_| OrderError::Busy)?;
        let store = Arc::clone(&self.store);
        let task = spawn_blocking(move || {
            let _held = (place, thread);
            work(&store)
        });
        task.await.map_err(|_| OrderError::Panicked)?
    }
}
