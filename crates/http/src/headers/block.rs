//! The block of bytes behind [`super::Headers`], and the records that say where in it each field lies.

use std::ops::Range;
use std::thread::LocalKey;

use crate::free_list::{FreeList, Reused};

use super::{InvalidHeader, Kind, Kinds};

/// The lines of the fields, without gaps.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    present: Kinds,
}

/// A view of lines and their records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    pub(crate) bytes: &'a [u8],
    pub(super) fields: &'a [Field],
    /// The kinds that are present, so that most heads are copied without a look at their fields.
    pub(crate) present: Kinds,
}

/// Where one line lies in the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Start of the line, which is the start of the name.
    pub(crate) start: u32,
    pub(crate) value: u32,
    pub(crate) value_len: u32,
    pub(crate) name_len: u16,
    pub(crate) kind: Kind,
    /// Its value is a secret, which no proxy on its way may put into a table (RFC 7541 section 7.1.3).
    pub(crate) is_sensitive: bool,
}

const _: () = assert!(size_of::<Field>() == 16);

impl Field {
    pub(crate) const UNSET: Self =
        Self { start: 0, value: 0, value_len: 0, name_len: 0, kind: Kind::Other, is_sensitive: false };
}

/// The parts that a caller of [`super::Headers::refill`] must set.
pub(crate) struct Refill<'b> {
    pub(crate) fields: &'b mut [Field],
    pub(crate) present: &'b mut Kinds,
}

/// Lines to which a decoder appends one after the other: the bytes of a line first, then its record.
pub(crate) struct Appender<'b> {
    pub(crate) bytes: &'b mut Vec<u8>,
    fields: &'b mut Vec<Field>,
    present: &'b mut Kinds,
}

impl Appender<'_> {
    /// Records the line that was appended last.
    #[inline]
    pub(crate) fn push(&mut self, field: Field) {
        self.fields.push(field);
        self.present.add(field.kind);
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }
}

impl Block {
    /// See [`super::Headers::appender`].
    #[inline]
    pub(super) fn appender(&mut self) -> Appender<'_> {
        Appender { bytes: &mut self.bytes, fields: &mut self.fields, present: &mut self.present }
    }

    /// A view of the lines.
    #[inline]
    pub(super) fn lines(&self) -> Lines<'_> {
        Lines { bytes: &self.bytes, fields: &self.fields, present: self.present }
    }

    /// Replaces all that is held by the lines of a head: see [`super::Headers::refill`].
    #[inline]
    pub(super) fn refill(&mut self, lines: &[u8], count: usize) -> Refill<'_> {
        self.bytes.clear();
        self.bytes.extend_from_slice(lines);
        // The caller overwrites all records, so old ones may stay. Pushing records one by one would call the allocator
        // from the caller's loop, which then keeps nothing in registers.
        self.fields.resize(count, Field::UNSET);
        Refill { fields: &mut self.fields, present: &mut self.present }
    }

    /// Appends a field that was checked.
    #[inline]
    pub(super) fn push(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidHeader> {
        let start = self.line_start(name.len() + value.len() + 4)?;
        let kind = Kind::of(name.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        // `line_start` made sure that the line ends below 4 GiB, and `line::check` that the name fits 16
        // bits.
        let name_len = name.len() as u16;
        let value_start = start + u32::from(name_len) + 2;
        let value_len = value.len() as u32;
        self.fields.push(Field { start, value: value_start, value_len, name_len, kind, is_sensitive: false });
        self.present.add(kind);
        Ok(())
    }

    /// See [`super::Headers::mark_last_sensitive`].
    pub(super) fn mark_last_sensitive(&mut self) {
        if let Some(field) = self.fields.last_mut() {
            field.is_sensitive = true;
        }
    }

    /// Appends lines that were checked, and are too few to come near 4 GiB.
    pub(super) fn push_lines(&mut self, lines: Lines<'_>) {
        // The guard keeps offsets honest.
        let Ok(shift) = self.line_start(lines.bytes.len()) else { return };
        self.bytes.extend_from_slice(lines.bytes);
        let moved =
            |field: &Field| Field { start: field.start + shift, value: field.value + shift, ..*field };
        self.fields.extend(lines.fields.iter().map(moved));
        self.present = self.present.with(lines.present);
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let mut removed = false;
        let mut index = 0;
        while let Some(field) = self.fields.get(index) {
            if !self.lines().is_named(field, name) {
                index += 1;
                continue;
            }
            removed = true;
            self.present.remove(field.kind);
            let line = line_range(&self.bytes, &self.fields, index);
            let shift = line.len() as u32;
            self.bytes.drain(line);
            self.fields.remove(index);
            for later in &mut self.fields[index..] {
                later.start -= shift;
                later.value -= shift;
            }
        }
        removed
    }

    /// Where a line of `len` bytes would start, with room made for it.
    #[inline]
    fn line_start(&mut self, len: usize) -> Result<u32, InvalidHeader> {
        let end = self.bytes.len().saturating_add(len);
        if u32::try_from(end).is_err() {
            return Err(InvalidHeader::TooLarge { bytes: end });
        }
        self.bytes.reserve(len);
        Ok(self.bytes.len() as u32)
    }
}

impl<'a> Lines<'a> {
    pub(super) const NONE: Self = Self { bytes: &[], fields: &[], present: Kinds::NONE };

    /// How many there are.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.fields.len()
    }

    #[inline]
    pub(super) fn is_named(self, field: &Field, name: &str) -> bool {
        usize::from(field.name_len) == name.len()
            && self.name_bytes(field).eq_ignore_ascii_case(name.as_bytes())
    }

    pub(super) fn name(self, field: &Field) -> &'a str {
        // Names are tokens, checked when they came in, so they are ASCII; the default is never seen.
        std::str::from_utf8(self.name_bytes(field)).unwrap_or_default()
    }

    #[inline]
    pub(super) fn value(self, field: &Field) -> &'a [u8] {
        let start = field.value as usize;
        &self.bytes[start..start + field.value_len as usize]
    }

    /// Names, values and records in order.
    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8], &'a Field)> {
        self.fields.iter().map(move |field| (self.name_bytes(field), self.value(field), field))
    }

    /// Appends the lines to `out`, except fields of the kinds in `except`.
    #[inline]
    pub(crate) fn write_to(self, out: &mut Vec<u8>, except: Kinds) {
        if self.present.intersects(except) {
            write_filtered(out, self.bytes, self.fields, except);
        } else {
            out.extend_from_slice(self.bytes);
        }
    }

    #[inline]
    fn name_bytes(self, field: &Field) -> &'a [u8] {
        let start = field.start as usize;
        &self.bytes[start..start + usize::from(field.name_len)]
    }
}

/// Not a method: the compiler would store its argument in memory for each head that is not filtered.
#[cold]
fn write_filtered(out: &mut Vec<u8>, bytes: &[u8], fields: &[Field], except: Kinds) {
    for (index, field) in fields.iter().enumerate() {
        if !except.contains(field.kind) {
            out.extend_from_slice(&bytes[line_range(bytes, fields, index)]);
        }
    }
}

fn line_range(bytes: &[u8], fields: &[Field], index: usize) -> Range<usize> {
    let end = fields.get(index + 1).map_or(bytes.len(), |next| next.start as usize);
    fields[index].start as usize..end
}

impl Reused for Block {
    fn kept() -> &'static LocalKey<FreeList<Self>> {
        &KEPT
    }

    #[cold]
    fn allocate() -> Box<Self> {
        Box::new(Self {
            bytes: Vec::with_capacity(BYTES),
            fields: Vec::with_capacity(FIELDS),
            present: Kinds::NONE,
        })
    }

    #[inline]
    fn is_small(&self) -> bool {
        self.bytes.capacity() <= BYTES_KEPT_MAX && self.fields.capacity() <= FIELDS_KEPT_MAX
    }

    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.present = Kinds::NONE;
    }
}

thread_local! {
    static KEPT: FreeList<Block> = const { FreeList::new() };
}

/// Room for most heads.
const BYTES: usize = 512;
const FIELDS: usize = 16;

/// A larger block is freed: 256 blocks of this size are 1 MiB a thread at most.
const BYTES_KEPT_MAX: usize = 2048;
const FIELDS_KEPT_MAX: usize = 128;
