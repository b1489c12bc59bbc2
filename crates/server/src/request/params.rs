//! The path parameters of a request.

use std::ops::Range;
use std::rc::Rc;

/// The path parameters: names from the route, and ranges in the path. One pointer, because requests move often and most
/// have no parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Option<Box<Matches>>);

#[derive(Debug, Clone)]
struct Matches {
    names: Rc<[Box<str>]>,
    ranges: Vec<Range<u32>>,
    /// The path as it came, once the handler has replaced it.
    path: Option<Box<str>>,
}

impl Params {
    pub(crate) fn new(names: Rc<[Box<str>]>, ranges: Vec<Range<u32>>) -> Self {
        debug_assert_eq!(names.len(), ranges.len());
        Self(Some(Box::new(Matches { names, ranges, path: None })))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A copy for any thread. `head` is the path of the head.
    pub(super) fn to_sent(&self, head: &str) -> Option<SentParams> {
        let Matches { names, ranges, path } = &**self.0.as_ref()?;
        let path = path.as_deref().unwrap_or(head).into();
        Some(SentParams { names: names.iter().cloned().collect(), ranges: ranges.clone(), path })
    }

    pub(super) fn of_sent(sent: &SentParams) -> Self {
        let SentParams { names, ranges, path } = sent;
        let matches =
            Matches { names: names.to_vec().into(), ranges: ranges.clone(), path: Some(path.clone()) };
        Self(Some(Box::new(matches)))
    }

    /// Whether the path of the head is where the parameters stand.
    pub(super) fn needs_path(&self) -> bool {
        self.0.as_ref().is_some_and(|matches| matches.path.is_none())
    }

    /// The head gets another path; this is the one where the parameters stand.
    pub(super) fn keep_path(&mut self, path: Box<str>) {
        if let Some(matches) = &mut self.0 {
            matches.path = Some(path);
        }
    }

    /// Where the parameters stand, if that is not the path of the head.
    pub(super) fn path(&self) -> Option<&str> {
        self.0.as_ref()?.path.as_deref()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Range<usize>)> + Clone {
        self.0.iter().flat_map(|matches| {
            let ranges = matches.ranges.iter().map(|range| range.start as usize..range.end as usize);
            matches.names.iter().map(AsRef::as_ref).zip(ranges)
        })
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
