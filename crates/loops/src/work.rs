//! What a loop works on: a label that the loop sets by one store, and that the thread which watches for stalls reads.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::context::Local;

/// The name of some work, such as a route. Made once, and copied as a number.
///
/// Equal names are one label, which stays until the process ends. Of those beyond [`Label::COUNT_MAX`] none has a name.
///
/// ```
/// use anywire_loops::Label;
///
/// let label = Label::new("GET /orders/{id}");
/// assert_eq!(label, Label::new("GET /orders/{id}"));
/// assert_eq!(label.to_string(), "GET /orders/{id}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(u32);

impl Label {
    /// The label of this name.
    pub fn new(name: &str) -> Self {
        let mut names = lock();
        if let Some(&number) = names.numbers.get(name) {
            return Self(number);
        }
        if names.list.len() >= Self::COUNT_MAX {
            return Self::NONE;
        }
        let name: Arc<str> = name.into();
        names.list.push(Arc::clone(&name));
        let number = names.list.len() as u32;
        names.numbers.insert(name, number);
        Self(number)
    }

    /// No work that has a name.
    pub const NONE: Self = Self(0);

    /// The most labels of a process: 65,536, some MiB of routes.
    pub const COUNT_MAX: usize = 1 << 16;

    pub(crate) fn name(self) -> Option<Arc<str>> {
        let at = (self.0 as usize).checked_sub(1)?;
        lock().list.get(at).cloned()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name().as_deref().unwrap_or("(no name)"))
    }
}

/// What the present loop works on. One store sets it, so a service may do so for each request.
///
/// ```
/// use anywire_loops::{Label, Loops, Work};
///
/// let loops = Loops::start(1)?;
/// let task = loops.get(0).spawn(|| async {
///     let (work, label) = (Work::here(), Label::new("the sum"));
///     work.begins(label);
///     let sum: u64 = (0..1000).sum();
///     work.ends();
///     sum
/// });
/// assert_eq!(task.wait()?, 499_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Work(Arc<AtomicU32>);

impl Work {
    /// That of the present loop. On a thread that is no loop it is nobody's.
    pub fn here() -> Self {
        Local::try_with(|local| local.shared().work.clone()).unwrap_or_default()
    }

    /// The loop is about to do this, until [`ends`](Self::ends) is called. Code that may panic is caught in between.
    #[inline]
    pub fn begins(&self, label: Label) {
        self.0.store(label.0, Relaxed);
    }

    /// The loop does something else now.
    #[inline]
    pub fn ends(&self) {
        self.begins(Label::NONE);
    }

    /// What the loop works on, [`Label::NONE`] if that has no name: to go on with it behind other work.
    #[inline]
    pub fn label(&self) -> Label {
        Label(self.0.load(Relaxed))
    }
}

/// All names so far, by their numbers less one.
#[derive(Default)]
struct Names {
    list: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

fn lock() -> MutexGuard<'static, Names> {
    static NAMES: LazyLock<Mutex<Names>> = LazyLock::new(Mutex::default);
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_have_no_label() {
        let first = Label::new("the first");
        for number in 0..Label::COUNT_MAX {
            Label::new(&format!("number {number}"));
        }
        assert_eq!(Label::new("one more"), Label::NONE);
        assert_eq!((first, first.to_string()), (Label::new("the first"), "the first".to_owned()));
        assert_eq!(Label::NONE.to_string(), "(no name)");
    }
}
