//! Connections that are made before the first call needs them.

use std::sync::Arc;

use crate::call::parse_url;
use crate::pool::loop_pools::LoopPools;
use crate::{Client, Error, Limits};

impl Client {
    /// Connects to an origin before there is a call for it: so many connections, spread over the loops of the client, less those that
    /// there are. Returns how many there are then: fewer if a dial fails, or if [`Limits`] allow fewer connections or
    /// dials at a time. They are closed when they have been idle for as long as others may.
    ///
    /// An origin that speaks HTTP/2 needs one for each loop at most.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
    /// let ready = client.connect_ahead("https://shop.internal", 8).await?;
    /// # let _ = ready;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As of a call that is not sent: a bad URL, a client that was shut down, loops that do not start.
    pub async fn connect_ahead(&self, origin: impl AsRef<str>, connections: usize) -> Result<usize, Error> {
        let url = parse_url(origin.as_ref())?;
        let inner = Arc::clone(&self.handle);
        if inner.is_closed() {
            return Err(Error::Shutdown { sent: false });
        }
        let loops = inner.loops()?;
        let count = loops.list.len();
        let tasks: Vec<_> = (0..count)
            .filter_map(|index| {
                let wanted = Limits::share(connections, index, count);
                let target = &loops.list[index];
                if wanted == 0 {
                    return None;
                }
                if !target.take_calls() {
                    return None;
                }
                let (shared, url) = (Arc::clone(&inner.0), url.clone());
                Some(target.handle.spawn(move || async move {
                    if shared.is_shut_down(index) {
                        return Err(Error::Shutdown { sent: false });
                    }
                    let pools = LoopPools::on_this_loop(&shared, index).pools_of(&url)?;
                    let mut connected = 0;
                    for (at, pool) in pools.iter().enumerate() {
                        connected += pool.connect_ahead(Limits::share(wanted, at, pools.len())).await;
                    }
                    Ok::<_, Error>(connected)
                }))
            })
            .collect();
        let mut connected = 0;
        for task in tasks {
            connected += task.await.map_err(|source| Error::Loop { source, sent: false })??;
        }
        Ok(connected)
    }
}
