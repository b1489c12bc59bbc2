//! The tables of HPACK: the static one, and the dynamic one of each direction (RFC 7541 section 2.3).

use std::collections::VecDeque;

use crate::headers::Kind;

/// The static table (RFC 7541 appendix A); the first entry has the index 1.
pub(super) static STATIC: [(&str, &str); STATIC_LEN] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

pub(super) const STATIC_LEN: usize = 61;

static STATIC_KINDS: [Kind; STATIC_LEN] = {
    let mut kinds = [Kind::Other; STATIC_LEN];
    let mut index = 0;
    while index < STATIC_LEN {
        kinds[index] = Kind::of(STATIC[index].0.as_bytes());
        index += 1;
    }
    kinds
};

/// The index of the first static entry of this name, which is in lower case; 0 if there is none.
#[inline]
pub(super) fn static_index(name: &[u8]) -> usize {
    let mut slot = hash(name);
    loop {
        let index = usize::from(SLOTS[slot]);
        if index == 0 || STATIC[index - 1].0.as_bytes() == name {
            return index;
        }
        slot = (slot + 1) % SLOTS.len();
    }
}

/// The index of a static entry with this name and this value.
#[inline]
pub(super) fn static_pair(name: &[u8], value: &[u8]) -> Option<usize> {
    let first = static_index(name).checked_sub(1)?;
    let named = STATIC[first..].iter().take_while(|(other, _)| other.as_bytes() == name);
    named.enumerate().find_map(|(at, (_, other))| (other.as_bytes() == value).then_some(first + at + 1))
}

const fn hash(name: &[u8]) -> usize {
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return 0 };
    let middle = name[name.len() / 2] as usize;
    (*first as usize + (*last as usize) * 5 + middle * 3 + name.len() * 11) % 256
}

/// Where the names are, by their hash.
static SLOTS: [u8; 256] = {
    let mut slots = [0; 256];
    let mut index = 0;
    while index < STATIC_LEN {
        let name = STATIC[index].0.as_bytes();
        index += 1;
        if index > 1 && same(STATIC[index - 2].0.as_bytes(), name) {
            continue;
        }
        let mut slot = hash(name);
        while slots[slot] != 0 {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = index as u8;
    }
    slots
};

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::h2) struct Entry<'t> {
    pub(in crate::h2) name: &'t [u8],
    pub(in crate::h2) value: &'t [u8],
    pub(in crate::h2) kind: Kind,
    /// As [`Line::is_valid`](super::Line).
    pub(in crate::h2) is_valid: bool,
}

impl Entry<'_> {
    /// The size of the field as `SETTINGS_MAX_HEADER_LIST_SIZE` counts (RFC 9113 section 6.5.2).
    #[inline]
    pub(in crate::h2) fn size(&self) -> usize {
        self.name.len() + self.value.len() + ENTRY_OVERHEAD_BYTES
    }

    #[inline]
    pub(in crate::h2) fn is_pseudo(&self) -> bool {
        self.name.first() == Some(&b':')
    }
}

/// A dynamic table. Its entries lie one behind the other in one block, so that an entry costs no allocation.
#[derive(Debug)]
pub(super) struct Table {
    /// Names and values, the oldest first. The first `gone` bytes were evicted.
    bytes: Vec<u8>,
    gone: usize,
    /// The oldest first.
    entries: VecDeque<Record>,
    size: usize,
    limit: usize,
}

/// Where an entry lies: 8 bytes, since idle connections keep them.
#[derive(Debug, Clone, Copy)]
struct Record {
    start: u16,
    name_len: u16,
    value_len: u16,
    kind: Kind,
    is_valid: bool,
}

impl Record {
    /// RFC 7541 section 4.1.
    fn size(self) -> usize {
        self.len() + ENTRY_OVERHEAD_BYTES
    }

    fn len(self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

impl Table {
    pub(super) fn new(limit: usize) -> Self {
        assert!(limit <= LIMIT_BYTES_MAX, "a table of {limit} bytes has places that no record can say");
        Self { bytes: Vec::new(), gone: 0, entries: VecDeque::new(), size: 0, limit }
    }

    /// The entry of an index of the whole index space: the static table, then this one from the newest entry on.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Entry<'_>> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            return Some(Entry { name, value, kind: STATIC_KINDS[index], is_valid: true });
        }
        let from_newest = index - STATIC_LEN;
        let record = self.entries.get(self.entries.len().checked_sub(from_newest + 1)?)?;
        let (name, rest) =
            self.bytes.get(usize::from(record.start)..)?.split_at_checked(usize::from(record.name_len))?;
        let value = rest.get(..usize::from(record.value_len))?;
        Some(Entry { name, value, kind: record.kind, is_valid: record.is_valid })
    }

    /// The index of an entry with this name and this value.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> Option<usize> {
        // The lengths tell most entries apart, and lie together.
        let place = self.entries.iter().rposition(|record| {
            let start = usize::from(record.start);
            let of_value = start + usize::from(record.name_len);
            usize::from(record.value_len) == value.len()
                && usize::from(record.name_len) == name.len()
                && self.bytes.get(of_value..of_value + value.len()) == Some(value)
                && self.bytes.get(start..of_value) == Some(name)
        })?;
        Some(STATIC_LEN + self.entries.len() - place)
    }

    /// Adds an entry, and evicts as many old ones as it takes. One that is larger than the table empties it.
    pub(super) fn insert(&mut self, Entry { name, value, kind, is_valid }: Entry<'_>) {
        // RFC 7541 section 4.1.
        let size = name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        let Some(room) = self.limit.checked_sub(size) else { return self.evict(0) };
        self.evict(room);
        if self.gone >= GONE_BYTES_MAX {
            self.compact();
        }
        self.size += size;
        // What fits the table fits the record.
        let [start, name_len, value_len] =
            [self.bytes.len(), name.len(), value.len()].map(|count| count as u16);
        let record = Record { start, name_len, value_len, kind, is_valid };
        self.entries.push_back(record);
        if self.bytes.capacity() - self.bytes.len() < record.len() {
            // Not twice as much: idle connections keep it.
            self.bytes.reserve_exact(record.len().next_multiple_of(BYTES_MORE));
        }
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Sets it to at most what it was made with.
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.evict(limit);
    }

    /// Bytes of names and values in memory, evicted ones too.
    #[cfg(fuzzing)]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Drops the oldest entries until the others have at most this size.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
            self.gone += oldest.len();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
            self.gone = 0;
        }
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.gone);
        for record in &mut self.entries {
            record.start -= self.gone as u16;
        }
        self.gone = 0;
    }
}

/// Counted for each entry beside its bytes (RFC 7541 section 4.1).
pub(in crate::h2) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The memory for names and values grows in such steps.
const BYTES_MORE: usize = 128;

/// Evicted bytes that are kept before the others are moved to the front: a quarter of the usual table.
const GONE_BYTES_MAX: usize = 1024;

/// The largest table whose places, those behind evicted bytes too, are told by 16 bits.
const LIMIT_BYTES_MAX: usize = u16::MAX as usize - GONE_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'t>(name: &'t [u8], value: &'t [u8]) -> Entry<'t> {
        Entry { name, value, kind: Kind::Other, is_valid: true }
    }

    #[test]
    fn each_static_name_is_found() {
        for (at, (name, _)) in STATIC.iter().enumerate() {
            let first = STATIC.iter().position(|(other, _)| other == name).expect("there");
            assert_eq!(static_index(name.as_bytes()), first + 1, "{name} of {}", at + 1);
        }
        for name in ["", "x", ":metho", "content-typ", "cookie2"] {
            assert_eq!(static_index(name.as_bytes()), 0, "{name}");
        }
    }

    #[test]
    fn old_entries_make_room_and_are_compacted_away() {
        let mut table = Table::new(200);
        for n in 0..1000_u32 {
            table.insert(entry(b"name", n.to_string().as_bytes()));
            assert!(table.size <= 200 && table.bytes.len() < 2 * GONE_BYTES_MAX);
            let newest = table.get(STATIC_LEN + 1).expect("just inserted");
            assert_eq!(newest.value, n.to_string().as_bytes());
        }
        // 32 + 4 + 3 bytes each.
        assert_eq!(table.entries.len(), 5);
        assert_eq!(table.find(b"name", b"996"), Some(STATIC_LEN + 4));
        assert_eq!(table.find(b"name", b"994"), None);
        table.set_limit(40);
        assert_eq!((table.entries.len(), table.find(b"name", b"999")), (1, Some(STATIC_LEN + 1)));
        table.insert(entry(&[b'x'; 9], b""));
        assert_eq!((table.entries.len(), table.size), (0, 0));
        assert_eq!(table.get(STATIC_LEN + 1), None);
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn entries_of_the_largest_table_are_found_where_they_lie() {
        let mut table = Table::new(LIMIT_BYTES_MAX);
        let longest = vec![b'v'; LIMIT_BYTES_MAX - ENTRY_OVERHEAD_BYTES];
        table.insert(entry(b"", &longest));
        assert_eq!(table.get(STATIC_LEN + 1).expect("there").value, longest);
        for n in 0..2000_u32 {
            let value = vec![n as u8; n as usize % 700];
            table.insert(entry(b"name", &value));
            assert_eq!(table.find(b"name", &value), Some(STATIC_LEN + 1), "{n}");
            assert_eq!(
                table.get(STATIC_LEN + 50).map(|entry| entry.value.len()),
                (n >= 49).then(|| (n as usize - 49) % 700),
                "{n}"
            );
        }
    }

    #[test]
    fn a_table_takes_little_more_memory_than_its_entries() {
        assert_eq!(size_of::<Record>(), 8);
        let mut table = Table::new(4096);
        for n in 0..60_u32 {
            table.insert(entry(b"name", n.to_string().as_bytes()));
            assert!(table.bytes.capacity() <= table.bytes.len() + BYTES_MORE, "{}", table.bytes.capacity());
        }
    }
}
