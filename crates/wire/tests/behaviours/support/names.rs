//! A resolver that answers when a test says so, and counts what it is asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_wire::names::{Answer, Records, ResolveError, Resolver, Resolving};
use tokio::sync::watch;

/// A book of names that a test changes under way. Clones share it.
#[derive(Clone)]
pub struct Book {
    names: Arc<Mutex<HashMap<String, Vec<SocketAddr>>>>,
    asked: Arc<Mutex<Vec<String>>>,
    is_open: Arc<watch::Sender<bool>>,
    ttl: Option<Duration>,
    is_split: bool,
}

impl Book {
    pub fn new() -> Self {
        let (is_open, _) = watch::channel(true);
        Self {
            names: Arc::default(),
            asked: Arc::default(),
            is_open: Arc::new(is_open),
            ttl: None,
            is_split: false,
        }
    }

    /// Its answers hold for so long.
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// It is asked for IPv6 and IPv4 addresses apart.
    pub fn split(self) -> Self {
        Self { is_split: true, ..self }
    }

    pub fn set(&self, name: &str, addresses: &[SocketAddr]) {
        self.names.lock().expect("no panic").insert(name.to_owned(), addresses.to_vec());
    }

    /// Whether queries are answered, or wait until they are.
    pub fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    /// What was asked for, query by query.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Resolver for Book {
    fn records(&self) -> &'static [Records] {
        if self.is_split { &[Records::V6, Records::V4] } else { &[Records::Any] }
    }

    fn resolve<'a>(&'a self, name: &'a str, records: Records) -> Resolving<'a> {
        self.asked.lock().expect("no panic").push(name.to_owned());
        Box::pin(async move {
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.expect("the sender is its own");
            let addresses = self.names.lock().expect("no panic").get(name).cloned();
            let mut addresses = addresses.ok_or(ResolveError::NotFound)?;
            addresses.retain(|address| match records {
                Records::V6 => address.is_ipv6(),
                Records::V4 => address.is_ipv4(),
                _ => true,
            });
            Ok(Answer { addresses, ttl: self.ttl })
        })
    }
}
