//! The field names that mean something to the engine, as small numbers.

/// What a field name means to the engine; `Other` for all that it only carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Other,
    Host,
    Date,
    Expect,
    Connection,
    KeepAlive,
    ProxyConnection,
    ContentLength,
    TransferEncoding,
}

impl Kind {
    /// Finds the kind of `name`, which must be a token (RFC 9110 section 5.6.2): by length first, as that
    /// decides nearly always.
    #[inline]
    pub(crate) const fn of(name: &[u8]) -> Self {
        match name.len() {
            4 => {
                // In a token, setting bit 5 makes a lower-case letter of nothing but a letter.
                let lower = u32::from_le_bytes([name[0], name[1], name[2], name[3]]) | 0x2020_2020;
                if lower == u32::from_le_bytes(*b"host") {
                    Self::Host
                } else if lower == u32::from_le_bytes(*b"date") {
                    Self::Date
                } else {
                    Self::Other
                }
            }
            6 if name.eq_ignore_ascii_case(b"expect") => Self::Expect,
            10 if name.eq_ignore_ascii_case(b"connection") => Self::Connection,
            10 if name.eq_ignore_ascii_case(b"keep-alive") => Self::KeepAlive,
            14 if name.eq_ignore_ascii_case(b"content-length") => Self::ContentLength,
            16 if name.eq_ignore_ascii_case(b"proxy-connection") => Self::ProxyConnection,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => Self::TransferEncoding,
            _ => Self::Other,
        }
    }
}

/// A set of kinds. `Other` is never in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u16);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn of(kinds: &[Kind]) -> Self {
        let mut set = Self::NONE;
        let mut index = 0;
        while index < kinds.len() {
            set.add(kinds[index]);
            index += 1;
        }
        set
    }

    #[inline]
    pub(crate) const fn add(&mut self, kind: Kind) {
        self.0 |= (1 << kind as u16) & !1;
    }

    #[inline]
    pub(crate) const fn remove(&mut self, kind: Kind) {
        self.0 &= !(1 << kind as u16);
    }

    #[inline]
    pub(crate) const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u16) != 0
    }

    #[inline]
    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case() {
        assert_eq!(Kind::of(b"hOsT"), Kind::Host);
        assert_eq!(Kind::of(b"Date"), Kind::Date);
        assert_eq!(Kind::of(b"EXPECT"), Kind::Expect);
        assert_eq!(Kind::of(b"Keep-Alive"), Kind::KeepAlive);
        assert_eq!(Kind::of(b"Connection"), Kind::Connection);
        assert_eq!(Kind::of(b"content-Length"), Kind::ContentLength);
        assert_eq!(Kind::of(b"Transfer-Encoding"), Kind::TransferEncoding);
        assert_eq!(Kind::of(b"proxy-connection"), Kind::ProxyConnection);
        for other in [&b""[..], b"a", b"hose", b"accept", b"user-agent", b"content-lengtH2"] {
            assert_eq!(Kind::of(other), Kind::Other);
        }
    }

    #[test]
    fn other_is_in_no_set() {
        let mut set = Kinds::NONE;
        set.add(Kind::Other);
        assert_eq!(set, Kinds::NONE);
        set.add(Kind::Date);
        assert!(set.contains(Kind::Date) && !set.contains(Kind::Other));
        set.remove(Kind::Date);
        assert_eq!(set, Kinds::NONE);
    }
}
