//! Connections that are made before the first call needs them.

use std::rc::Rc;
use std::sync::Arc;

use anywire_http::Url;

use crate::call::parse_url;
use crate::client::inner::Inner;
use crate::pool::Pool;
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
                // The addresses take turns over all loops together.
                let before: usize = (0..index).map(|other| Limits::share(connections, other, count)).sum();
                let connects = async move || connect_here(&shared, index, &url, wanted, before).await;
                Some(target.handle.spawn(connects))
            })
            .collect();
        let mut connected = 0;
        for task in tasks {
            connected += task.await.map_err(|source| Error::Loop { source, sent: false })??;
        }
        Ok(connected)
    }
}

/// Connects so many times on this loop, which is loop `index`: at all addresses at once, so that one that is dead holds up no other. The
/// loops `before` this one connect so many times.
async fn connect_here(
    inner: &Arc<Inner>,
    index: usize,
    url: &Url,
    wanted: usize,
    before: usize,
) -> Result<usize, Error> {
    let is_open = || match inner.is_shut_down(index) {
        true => Err(Error::Shutdown { sent: false }),
        false => Ok(()),
    };
    is_open()?;
    let pools = LoopPools::on_this_loop(inner, index);
    pools.first_addresses(url).await?;
    // It may have been shut down meanwhile.
    is_open()?;
    let pools = pools.pools_of(url)?;
    let count = pools.len();
    let connect = |(at, pool): (usize, Rc<Pool>)| {
        let turn = (at + count - before % count) % count;
        let wanted = Limits::share(wanted, turn, count);
        anywire_loops::spawn(async move { pool.connect_ahead(wanted).await })
    };
    let tasks: Vec<_> = pools.into_iter().enumerate().map(connect).collect();
    let mut connected = 0;
    for task in tasks {
        connected += task.await.map_err(|source| Error::Loop { source, sent: false })?;
    }
    Ok(connected)
}
