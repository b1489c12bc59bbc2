//! Messages to tasks: to one, to a group, to everyone, from tasks and from other threads.
//!
//! A [`Mail`] belongs to the thread of a swarm. Its tasks open [`Mailbox`]es, and groups of them are made there. A [`Post`] sends
//! from any thread: it costs a lock, and one wake-up for all messages that the thread has not looked at yet. A message to a
//! group is stored once on the thread, and its members share it by a count that is not atomic.
//!
//! Everything has a limit ([`MailLimits`]). A reader that falls behind loses the oldest messages, or the new ones, or its
//! mailbox, as the group says ([`SlowReader`]), and each is counted.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use anywire_advice::Advice;
use thiserror::Error;

use super::leaf::current;
use super::office::{Office, To};

/// The mailboxes of a thread's tasks; clones are the same. A swarm delivers its messages once it is
/// [attached](super::Swarm::attach).
///
/// Messages can be of any type. A [`SharedPayload`](super::SharedPayload) to many is kept once until all peers have acknowledged it.
/// It is not copied into each send queue, and its checksum is computed once.
///
/// ```no_run
/// use anywire_stack::swarm::{Either, GroupId, Incoming, Mail, MailLimits, SharedPayload, select};
///
/// let mail = Mail::<SharedPayload>::new(MailLimits::default());
/// let post = mail.post();
/// let device = move |incoming: Incoming| {
///     let mailbox = mail.mailbox();
///     async move {
///         let (mut conn, Ok(mut mailbox)) = (incoming.conn, mailbox) else { return };
///         loop {
///             match select(conn.recv(), mailbox.recv()).await {
///                 Either::First(Some(received)) => _ = conn.send(received).await,
///                 Either::Second(Ok(message)) => _ = conn.send(&*message).await,
///                 // The device has gone, or is too slow.
///                 _ => return,
///             }
///         }
///     }
/// };
/// // From any thread:
/// std::thread::spawn(move || post.to_group(GroupId::EVERYONE, b"hello".to_vec().into()));
/// # drop(device);
/// ```
pub struct Mail<M> {
    shared: Rc<Shared<M>>,
}

/// What the handles of the thread share.
struct Shared<M> {
    office: RefCell<Office<M>>,
    inbox: Arc<Inbox<M>>,
}

impl<M> Drop for Shared<M> {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl<M> Mail<M> {
    /// Without mailboxes and groups.
    pub fn new(limits: MailLimits) -> Self {
        let list = List { posts: Vec::new(), notify: None, is_open: true, refused: 0 };
        let inbox = Inbox {
            list: Mutex::new(list),
            some: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            posts_max: limits.posts,
        };
        let (office, inbox) = (RefCell::new(Office::new(limits)), Arc::new(inbox));
        Self { shared: Rc::new(Shared { office, inbox }) }
    }

    /// Opens a mailbox.
    ///
    /// # Errors
    ///
    /// [`MailError::TooManyMailboxes`].
    pub fn mailbox(&self) -> Result<Mailbox<M>, MailError> {
        let id = self.shared.office.borrow_mut().open()?;
        Ok(Mailbox { shared: Rc::clone(&self.shared), id })
    }

    /// Makes a group, which does this with readers that are too slow.
    ///
    /// # Errors
    ///
    /// [`MailError::TooManyGroups`].
    pub fn group(&self, slow: SlowReader) -> Result<GroupId, MailError> {
        self.shared.office.borrow_mut().group(slow)
    }

    /// Ends a group: its members stay without it, and later messages to it are undeliverable.
    pub fn end_group(&self, group: GroupId) {
        self.shared.office.borrow_mut().end_group(group);
    }

    /// A handle that sends, from this thread and any other.
    pub fn post(&self) -> Post<M> {
        Post { inbox: Arc::clone(&self.shared.inbox) }
    }

    /// Counts of all messages so far.
    pub fn counters(&self) -> MailCounters {
        let refused = self.shared.inbox.lock().refused;
        MailCounters { refused, ..self.shared.office.borrow().counters }
    }
}

impl<M> Clone for Mail<M> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for Mail<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail").finish_non_exhaustive()
    }
}

/// What a swarm does with the mail that is attached to it.
pub(super) trait Deliver {
    /// Delivers some; says how many, and adds the tasks to wake.
    fn deliver(&self, woken: &mut Vec<u32>) -> usize;
    /// Whether there is something to deliver.
    fn has_some(&self) -> bool;
    /// Has this called when there is something again, on any thread.
    fn notify_with(&self, notify: Box<dyn Fn() + Send>);
}

impl<M> Deliver for Mail<M> {
    fn deliver(&self, woken: &mut Vec<u32>) -> usize {
        let Shared { office, inbox } = &*self.shared;
        let mut office = office.borrow_mut();
        let mut done = 0;
        if inbox.some.load(Ordering::Acquire) {
            let posts = inbox.take(office.under_way());
            done += posts.len();
            for (to, message) in posts {
                office.accept(&to, message, woken);
            }
        }
        if office.is_delivering() {
            done += office.deliver(woken);
        }
        if done > 0 {
            inbox.under_way.store(office.under_way(), Ordering::Relaxed);
        }
        let messages = office.take_done_with();
        drop(office);
        // Their destructors may use mail.
        drop(messages);
        done
    }

    fn has_some(&self) -> bool {
        self.shared.inbox.some.load(Ordering::Acquire) || self.shared.office.borrow().is_delivering()
    }

    fn notify_with(&self, notify: Box<dyn Fn() + Send>) {
        self.shared.inbox.lock().notify = Some(notify);
    }
}

/// A queue of messages for a task. Dropping it closes it, and takes it out of its groups.
pub struct Mailbox<M> {
    shared: Rc<Shared<M>>,
    id: MailboxId,
}

impl<M> Mailbox<M> {
    /// The address of messages to it. It stays unique: after this mailbox has gone, messages to it are undeliverable.
    pub const fn id(&self) -> MailboxId {
        self.id
    }

    /// Waits for the next message. The next message wakes the running task.
    ///
    /// # Errors
    ///
    /// [`MailError::TooSlow`] once a group with [`SlowReader::Disconnect`] has given this reader up.
    pub fn recv(&mut self) -> impl Future<Output = Result<Rc<M>, MailError>> + Unpin {
        let mailbox = &*self;
        poll_fn(move |_| {
            let Self { shared, id } = mailbox;
            shared.office.borrow_mut().take(*id, current()).map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Becomes a member of a group; nothing if it is one. It gets the messages that are posted from then on.
    ///
    /// # Errors
    ///
    /// [`MailError::NoGroup`].
    pub fn join(&self, group: GroupId) -> Result<(), MailError> {
        self.shared.office.borrow_mut().join(self.id, group)
    }

    /// Leaves a group; nothing if it is no member.
    pub fn leave(&self, group: GroupId) {
        self.shared.office.borrow_mut().leave(self.id, group);
    }
}

impl<M> Drop for Mailbox<M> {
    fn drop(&mut self) {
        let mut office = self.shared.office.borrow_mut();
        office.close(self.id);
        let messages = office.take_done_with();
        drop(office);
        // Their destructors may use mail.
        drop(messages);
    }
}

impl<M> fmt::Debug for Mailbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Sends messages to the mailboxes of one [`Mail`], from any thread. Cheap to clone.
pub struct Post<M> {
    inbox: Arc<Inbox<M>>,
}

impl<M> Post<M> {
    /// Sends a message to one mailbox. If it has gone, or is full, that is counted there.
    ///
    /// # Errors
    ///
    /// [`MailError::Full`] if too many messages wait, for the thread or for all of their group to get them; [`MailError::Gone`] if the thread has dropped its [`Mail`]. The
    /// message is dropped.
    pub fn to(&self, mailbox: MailboxId, message: M) -> Result<(), MailError> {
        self.inbox.put(To::One(mailbox), message)
    }

    /// Sends a message to each member that a group has when the thread takes the message. Messages of one sender to groups keep
    /// their order, and so do those to single mailboxes. But one to a single mailbox may overtake earlier ones to a group.
    ///
    /// # Errors
    ///
    /// As [`to`](Self::to).
    pub fn to_group(&self, group: GroupId, message: M) -> Result<(), MailError> {
        self.inbox.put(To::Group(group), message)
    }
}

impl<M> Clone for Post<M> {
    fn clone(&self) -> Self {
        Self { inbox: Arc::clone(&self.inbox) }
    }
}

impl<M> fmt::Debug for Post<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").finish_non_exhaustive()
    }
}

/// Messages on their way to the thread.
struct Inbox<M> {
    list: Mutex<List<M>>,
    /// Whether the list may hold something: what the swarm reads in each round.
    some: AtomicBool,
    /// Messages that the thread has taken, and not delivered to all of their group yet: at most. They count for the limit as
    /// well. It becomes more under the lock alone.
    under_way: AtomicUsize,
    posts_max: usize,
}

struct List<M> {
    posts: Vec<(To, M)>,
    notify: Option<Box<dyn Fn() + Send>>,
    /// The thread has not let go of its mail.
    is_open: bool,
    refused: u64,
}

impl<M> Inbox<M> {
    fn put(&self, to: To, message: M) -> Result<(), MailError> {
        let mut list = self.lock();
        if !list.is_open {
            return Err(MailError::Gone);
        }
        if list.posts.len() + self.under_way.load(Ordering::Relaxed) >= self.posts_max {
            list.refused += 1;
            return Err(MailError::Full);
        }
        list.posts.push((to, message));
        // Once for a list, and under the lock: the swarm clears the mark under it as well.
        if !self.some.swap(true, Ordering::Release)
            && let Some(notify) = &list.notify
        {
            notify();
        }
        Ok(())
    }

    /// Takes all posts, beside so many messages under way.
    #[cold]
    fn take(&self, under_way: usize) -> Vec<(To, M)> {
        let mut list = self.lock();
        self.some.store(false, Ordering::Relaxed);
        self.under_way.store(under_way + list.posts.len(), Ordering::Relaxed);
        std::mem::take(&mut list.posts)
    }

    /// No swarm will take messages any more.
    fn close(&self) {
        let mut list = self.lock();
        list.is_open = false;
        let posts = std::mem::take(&mut list.posts);
        drop(list);
        // Their destructors may send again.
        drop(posts);
    }

    fn lock(&self) -> MutexGuard<'_, List<M>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sender's handle of a mailbox. Valid on any thread; of one [`Mail`] alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MailboxId {
    pub(super) place: u32,
    pub(super) generation: u32,
}

/// The sender's handle of a group of mailboxes. Valid on any thread; of one [`Mail`] alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId {
    pub(super) place: u32,
    pub(super) generation: u32,
}

impl GroupId {
    /// All mailboxes, without their joining.
    pub const EVERYONE: Self = Self { place: u32::MAX, generation: 0 };
}

/// How a message for a full mailbox is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlowReader {
    /// The oldest message there is dropped for it. For updates that replace each other.
    #[default]
    DropOldest,
    /// The new message is dropped. For messages that are independent of each other.
    Skip,
    /// All of its messages are dropped, and its [`recv`](Mailbox::recv) fails, so that its task ends. For a stream without gaps. A task
    /// that waits in a send to a peer that takes nothing does not call `recv`: give sends a [`Deadline`](super::Deadline).
    Disconnect,
}

/// The limits of one [`Mail`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailLimits {
    /// Mailboxes (default 16,777,216). Each takes some 96 bytes, and 8 for each message that waits.
    pub mailboxes: usize,
    /// Groups (default 65,536).
    pub groups: usize,
    /// Messages that wait in a mailbox (default 16).
    pub messages: usize,
    /// How a message to one mailbox, or to everyone, is treated if the mailbox is full.
    pub slow: SlowReader,
    /// Messages that wait for the swarm's thread, or are on their way to the members of a group (default 65,536).
    pub posts: usize,
    /// Members that one round of the swarm delivers to (default 8192), so that a message for a million does not keep it from its
    /// other work.
    pub deliveries_a_round: usize,
}

impl Default for MailLimits {
    fn default() -> Self {
        Self {
            mailboxes: 1 << 24,
            groups: 1 << 16,
            messages: 16,
            slow: SlowReader::DropOldest,
            posts: 1 << 16,
            deliveries_a_round: 1 << 13,
        }
    }
}

/// Counts of messages, by their fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MailCounters {
    /// Put into a mailbox: a message to a group counts for each of its members.
    pub delivered: u64,
    /// Dropped from a full mailbox, for a newer one.
    pub dropped_oldest: u64,
    /// Not put into a full mailbox.
    pub skipped: u64,
    /// Readers that were given up for being too slow. What is sent to them afterwards is not counted.
    pub disconnected: u64,
    /// For a mailbox or a group that had gone.
    pub undeliverable: u64,
    /// Refused when they were sent, because too many waited.
    pub refused: u64,
}

/// Why something with mail failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MailError {
    /// The limit of mailboxes is reached.
    #[error(
        "no mailbox was opened: the limit of mailboxes is reached{help}",
        help = Advice("raise MailLimits::mailboxes")
    )]
    TooManyMailboxes,
    /// The limit of groups is reached.
    #[error(
        "no group was made: the limit of groups is reached{help}",
        help = Advice("end some, or raise MailLimits::groups")
    )]
    TooManyGroups,
    /// The group has ended.
    #[error("the group was not joined: it has ended")]
    NoGroup,
    /// This reader was given up: it had as many messages waiting as it may. End the task, so that its peer comes again.
    #[error("this reader was too slow and was given up")]
    TooSlow,
    /// Too many messages wait for the swarm's thread, or are on their way to groups: send less, or later.
    #[error(
        "the message was not sent: too many wait for their delivery{help}",
        help = Advice("send later, or raise MailLimits::posts")
    )]
    Full,
    /// The swarm's mail is gone.
    #[error("the message was not sent: the thread has let go of its mail")]
    Gone,
}
