//! The path parameters of a request.

use std::ops::Range;
use std::rc::Rc;

/// The path parameters: names from the route, and ranges in the path. One request leaves its memory to the next.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// `None` if there are no parameters.
    names: Option<Rc<[Box<str>]>>,
    ranges: Vec<Range<u32>>,
    /// The path as it came, once the handler has replaced it.
    path: Option<Box<str>>,
}

impl Params {
    /// Replaces all of them.
    #[inline]
    pub(crate) fn set(&mut self, names: &Rc<[Box<str>]>, ranges: impl Iterator<Item = Range<u32>>) {
        self.clear();
        self.ranges.extend(ranges);
        debug_assert_eq!(names.len(), self.ranges.len());
        self.names = Some(Rc::clone(names));
    }

    /// Removes all of them. Their memory stays for others.
    #[inline]
    pub(crate) fn clear(&mut self) {
        // Most requests have none: a look is all that it costs them.
        if self.names.is_some() {
            self.names = None;
            self.ranges.clear();
            self.path = None;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_none() && self.ranges.is_empty() && self.path.is_none()
    }

    /// A copy for any thread. `head` is the path of the head.
    pub(super) fn to_sent(&self, head: &str) -> Option<SentParams> {
        let names = self.names.as_ref()?.iter().cloned().collect();
        Some(SentParams { names, ranges: self.ranges.clone(), path: self.path().unwrap_or(head).into() })
    }

    pub(super) fn set_sent(&mut self, sent: &SentParams) {
        let SentParams { names, ranges, path } = sent;
        self.set(&names.to_vec().into(), ranges.iter().cloned());
        self.keep_path(path.clone());
    }

    /// Whether the path of the head is where the parameters stand.
    pub(super) fn needs_path(&self) -> bool {
        self.names.is_some() && self.path.is_none()
    }

    /// The head gets another path; this is the one where the parameters stand.
    pub(super) fn keep_path(&mut self, path: Box<str>) {
        self.path = Some(path);
    }

    /// Where the parameters stand, if that is not the path of the head.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Range<usize>)> + Clone {
        let names = self.names.as_deref().unwrap_or_default().iter().map(AsRef::as_ref);
        names.zip(self.ranges.iter().map(|range| range.start as usize..range.end as usize))
    }
}

/// Path parameters of a request that may go to another thread.
#[derive(Debug)]
pub(super) struct SentParams {
    names: Box<[Box<str>]>,
    ranges: Vec<Range<u32>>,
    /// Where the ranges are.
    path: Box<str>,
}
