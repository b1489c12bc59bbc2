//! A loop as the others see it that share the device: where they leave it rings, and news of the link.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rings::Direction;
use super::steering::LoopNumber;
use crate::device::LinkEvent;
use crate::ring_link::{Mailbox, Notifier};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) number: LoopNumber,
    pub(super) notifier: Arc<Notifier>,
    arrived: Mailbox,
    departing: Mailbox,
    /// What has become of the link, told by the loop that sends for this one.
    news: Mutex<News>,
    has_news: AtomicBool,
}

#[derive(Debug, Default)]
struct News {
    /// Those that it has not heard of.
    events: VecDeque<LinkEvent>,
    /// The link is down, as far as it was told.
    is_down: bool,
}

impl Peer {
    pub(super) fn new(number: LoopNumber) -> Self {
        let notifier = Arc::<Notifier>::default();
        let mailbox = || Mailbox::with_notifier(number, Arc::clone(&notifier));
        Self {
            number,
            arrived: mailbox(),
            departing: mailbox(),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            notifier,
        }
    }

    /// Where it gets rings with frames of this direction.
    pub(super) const fn mailbox(&self, direction: Direction) -> &Mailbox {
        match direction {
            Direction::In => &self.arrived,
            Direction::Out => &self.departing,
        }
    }

    /// The loop has ended.
    pub(super) fn close(&self) {
        self.arrived.close();
        self.departing.close();
    }

    /// Something has become of the link.
    pub(super) fn tell(&self, event: LinkEvent) {
        self.note(&mut self.news(), event);
    }

    /// The same, if it was told otherwise last.
    pub(super) fn tell_whether_down(&self, is_down: bool) {
        let mut news = self.news();
        if news.is_down != is_down {
            self.note(&mut news, if is_down { LinkEvent::Down } else { LinkEvent::Up });
        }
    }

    fn note(&self, news: &mut News, event: LinkEvent) {
        match event {
            LinkEvent::Up => news.is_down = false,
            LinkEvent::Down => news.is_down = true,
            _ => {}
        }
        if news.events.len() >= NEWS_MAX {
            news.events.pop_front();
        }
        news.events.push_back(event);
        self.has_news.store(true, Ordering::Release);
        self.notifier.notify();
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// The oldest event of the link that the loop has not heard of.
    #[inline]
    pub(super) fn next_news(&self) -> Option<LinkEvent> {
        if !self.has_news() {
            return None;
        }
        let mut news = self.news();
        let event = news.events.pop_front();
        self.has_news.store(!news.events.is_empty(), Ordering::Release);
        event
    }

    fn news(&self) -> MutexGuard<'_, News> {
        // Nothing panics while the lock is held.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that wait for a loop which does not look. Above that the oldest are forgotten.
const NEWS_MAX: usize = 64;
