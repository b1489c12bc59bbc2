//! Connections without anything on the way.

use super::{Connecting, Connector, Target};

/// Dials the [address](Target::address) of the target: what a client does without proxies.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direct;

impl Connector for Direct {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        Box::pin(async move { Ok(target.dialer().dial(target.address()).await?) })
    }
}
