//! The head that came last, because servers repeat theirs: answers to one request differ in their `Date` once a second.

use super::HeadInfo;

/// What was made of the response head that came last, for [`super::ResponseDecoder::decode_repeated`]. One serves any number of
/// connections whose decoders have the same limits.
#[derive(Debug)]
pub struct LastHead<H> {
    /// All bytes of it; empty if there is none.
    bytes: Vec<u8>,
    made: Option<(H, HeadInfo)>,
}

impl<H: Copy> LastHead<H> {
    /// Before the first one.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), made: None }
    }

    /// What was made of it, if `data` begins with the same bytes, and how many these are.
    #[inline]
    pub(super) fn recall(&self, data: &[u8]) -> Option<(usize, H, HeadInfo)> {
        let (made, info) = self.made?;
        data.starts_with(&self.bytes).then_some((self.bytes.len(), made, info))
    }

    /// Keeps what was made of another one.
    pub(super) fn keep(&mut self, head: &[u8], made: H, info: HeadInfo) {
        self.bytes.clear();
        self.bytes.extend_from_slice(head);
        self.made = Some((made, info));
    }
}

impl<H: Copy> Default for LastHead<H> {
    fn default() -> Self {
        Self::new()
    }
}
