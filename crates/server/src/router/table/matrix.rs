//! A path without its matrix parameters.

use std::ops::Range;

/// What is left of a path without the parameters of its segments.
pub(in crate::router) struct Bare {
    pub(in crate::router) path: String,
    /// Where text was left out: the offset in what is left, and the bytes that are missing up to there.
    left_out: Vec<(usize, usize)>,
}

impl Bare {
    /// `None` if the path has no parameters.
    pub(in crate::router) fn of(path: &str) -> Option<Self> {
        if !path.contains(';') {
            return None;
        }
        let mut bare = Self { path: String::with_capacity(path.len()), left_out: Vec::new() };
        let mut missing = 0;
        for (index, segment) in path.split('/').enumerate() {
            if index > 0 {
                bare.path.push('/');
            }
            let (name, parameters) = segment.split_at(segment.find(';').unwrap_or(segment.len()));
            bare.path.push_str(name);
            if !parameters.is_empty() {
                missing += parameters.len();
                bare.left_out.push((bare.path.len(), missing));
            }
        }
        Some(bare)
    }

    /// Ranges of what is left, where they stand in the whole path. The parameters of a last segment are not among them.
    pub(in crate::router) fn in_original(&self, ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
        let moved = |offset: u32| {
            let before = self.left_out.iter().take_while(|(at, _)| *at < offset as usize).last();
            // A head is limited to far less than 4 GiB.
            offset + before.map_or(0, |(_, missing)| *missing as u32)
        };
        ranges.into_iter().map(|range| moved(range.start)..moved(range.end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stand_where_they_came_from() {
        let path = "/a;x=1/bc;y/d;z=2;w";
        let bare = Bare::of(path).expect("parameters");
        assert_eq!(bare.path, "/a/bc/d");
        let found = |part: &str| {
            let start = bare.path.find(part).expect("a part") as u32;
            let range = start..start + part.len() as u32;
            let range = bare.in_original(Vec::from([range])).remove(0);
            &path[range.start as usize..range.end as usize]
        };
        assert_eq!(found("a"), "a");
        assert_eq!(found("bc"), "bc");
        assert_eq!(found("d"), "d");
        assert_eq!(found("bc/d"), "bc;y/d");
        assert!(Bare::of("/a/b").is_none());
        assert_eq!(Bare::of("/;a").expect("parameters").path, "/");
    }
}
