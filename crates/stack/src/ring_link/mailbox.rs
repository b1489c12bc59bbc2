//! What others see of a loop that takes frames: its number, its notifier, and an inbox for the ends of new links.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::link::{End, Notifier};

/// A loop as others see it that send it frames.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) number: u16,
    pub(crate) notifier: Arc<Notifier>,
    /// Ends of links that others have made; none once the owner has gone.
    inbox: Mutex<Option<Vec<End>>>,
    has_mail: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new(number: u16) -> Self {
        Self::with_notifier(number, Arc::default())
    }

    /// One of several of a loop, which all wake it by one notifier.
    pub(crate) fn with_notifier(number: u16, notifier: Arc<Notifier>) -> Self {
        let (inbox, has_mail) = (Mutex::new(Some(Vec::new())), AtomicBool::new(false));
        Self { number, notifier, inbox, has_mail }
    }

    /// Gives the owner an end of a link; false if it has gone.
    pub(crate) fn send(&self, end: End) -> bool {
        let mut inbox = self.inbox();
        let Some(mail) = &mut *inbox else { return false };
        mail.push(end);
        self.has_mail.store(true, Ordering::Release);
        drop(inbox);
        self.notifier.notify();
        true
    }

    /// Whether the owner is still there.
    pub(crate) fn is_open(&self) -> bool {
        self.inbox().is_some()
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    pub(crate) fn take_mail(&self) -> Vec<End> {
        let mut inbox = self.inbox();
        self.has_mail.store(false, Ordering::Release);
        inbox.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The owner has gone. The other ends of links that it has not seen find them closed.
    pub(crate) fn close(&self) {
        let mail = self.inbox().take();
        drop(mail);
    }

    fn inbox(&self) -> MutexGuard<'_, Option<Vec<End>>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
