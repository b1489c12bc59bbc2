//! Places for blocks of one kind: an arena whose freed places are taken again, last in, first out.

use std::io;
use std::ops::{Index, IndexMut};

use anywire_sys::arena::Arena;

/// A kind of block that can say, while it is free, which place is free next. A free place is the default.
pub(crate) trait Linked: Copy + Default {
    /// What names a place of such blocks.
    type Place: Copy + Into<u32> + From<u32>;

    /// Where it says so.
    fn next_free(&mut self) -> &mut u32;
}

/// A bounded set of blocks, named by their place.
pub(crate) struct Slab<T: Linked> {
    places: Arena<T>,
    first_free: u32,
    used: usize,
}

const NONE: u32 = u32::MAX;

impl<T: Linked> Slab<T> {
    pub(crate) fn new(places_max: usize) -> io::Result<Self> {
        Ok(Self { places: Arena::reserve(places_max.max(1), T::default())?, first_free: NONE, used: 0 })
    }

    /// Takes a place and fills it; none if all are taken.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Option<T::Place> {
        let place = self.take()?;
        self[place] = value;
        Some(place)
    }

    /// Takes a place to be filled where it lies; none if all are taken. It is as a free one: only its link must be overwritten.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T::Place> {
        if self.first_free == NONE {
            self.grow()?;
        }
        let place = self.first_free;
        self.first_free = *self.places[place as usize].next_free();
        self.used += 1;
        Some(place.into())
    }

    /// Gives a place back.
    #[inline]
    pub(crate) fn remove(&mut self, place: T::Place) {
        let next = self.first_free;
        let free = &mut self[place];
        *free = T::default();
        *free.next_free() = next;
        self.first_free = place.into();
        self.used -= 1;
    }

    /// How many places are taken.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Places that there are, taken or free: the numbers below this one name them.
    pub(crate) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// The names of all places, taken or free.
    pub(crate) fn all(&self) -> impl Iterator<Item = T::Place> + use<T> {
        (0..self.places()).map(T::Place::from)
    }

    /// Bytes of memory taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.places.bytes()
    }

    #[inline]
    pub(crate) fn prefetch(&self, place: T::Place) {
        self.places.prefetch(place.into() as usize);
    }

    /// Links the places so that they are taken from the lowest up: neighbours in time are neighbours in memory.
    fn grow(&mut self) -> Option<()> {
        let first = self.places.len();
        let end = first + self.places.grow();
        for place in (first..end).rev() {
            *self.places[place].next_free() = self.first_free;
            self.first_free = place as u32;
        }
        (end > first).then_some(())
    }
}

impl<T: Linked> Index<T::Place> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: T::Place) -> &T {
        &self.places[place.into() as usize]
    }
}

impl<T: Linked> IndexMut<T::Place> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, place: T::Place) -> &mut T {
        &mut self.places[place.into() as usize]
    }
}
