//! Interim responses (1xx), told to who has asked for them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anywire_http::ResponseHead;

use crate::Call;
use crate::contained::drop_caught;

/// A function of the caller's that is told of each interim response.
#[derive(Clone)]
pub(crate) struct InterimHook(Arc<dyn Fn(&ResponseHead) + Send + Sync>);

impl InterimHook {
    pub(crate) fn tell(&self, head: &ResponseHead) {
        // A panic is the caller's, and the loop has other calls.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.0)(head))) {
            drop_caught(payload);
        }
    }
}

impl fmt::Debug for InterimHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterimHook")
    }
}

impl Call {
    /// Has a function told of each interim response (1xx) as it comes: 100, 102, 103 with its `link` fields (RFC 8297). It runs on
    /// the loop of the connection, so it must not block. There are at most
    /// [`Limits::interim_responses`](crate::Limits::interim_responses) of them in each attempt.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) -> Result<(), anywire_client::Error> {
    /// use std::sync::mpsc;
    ///
    /// let (hints, come) = mpsc::channel();
    /// let call = client.get("https://shop.example/").on_interim(move |head| {
    ///     let _ = hints.send(head.headers().get("link").map(str::to_owned));
    /// });
    /// let page = call.send().await?;
    /// # drop((page, come)); Ok(()) }
    /// ```
    pub fn on_interim(self, hook: impl Fn(&ResponseHead) + Send + Sync + 'static) -> Self {
        self.edit(|request| {
            request.options.on_interim = Some(InterimHook(Arc::new(hook)));
            Ok(())
        })
    }
}
