//! Which response belongs to which request.

/// Where a datagram says which exchange it belongs to: request and response have the same tag.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Matching {
    /// Bytes at one place in both: a transaction id, as in DNS (offset 0, width 2).
    Field {
        /// Where they begin.
        offset: usize,
        /// How many there are: 1 to 8.
        width: u8,
    },
    /// What this function reads from a datagram; `None` if it has no tag.
    By(fn(&[u8]) -> Option<u64>),
}

impl Matching {
    /// The tag of a datagram; `None` if it is too short to have one.
    ///
    /// ```
    /// use anywire_client::udp::Matching;
    ///
    /// let id = Matching::Field { offset: 2, width: 2 };
    /// assert_eq!(id.tag(b"ab\x01\x02c"), Some(0x0102));
    /// assert_eq!(id.tag(b"ab\x01"), None);
    /// ```
    pub fn tag(&self, datagram: &[u8]) -> Option<u64> {
        match *self {
            Self::Field { offset, width } => {
                let width = usize::from(width.clamp(1, 8));
                let field = datagram.get(offset..offset.checked_add(width)?)?;
                Some(field.iter().fold(0, |tag, &byte| tag << 8 | u64::from(byte)))
            }
            Self::By(read) => read(datagram),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_beyond_any_datagram_is_no_tag() {
        assert_eq!(Matching::Field { offset: usize::MAX, width: 8 }.tag(b"abc"), None);
        assert_eq!(Matching::Field { offset: 0, width: 0 }.tag(b"\x05"), Some(5));
        assert_eq!(Matching::Field { offset: 0, width: 200 }.tag(&[0xff; 9]), Some(u64::MAX));
    }
}
