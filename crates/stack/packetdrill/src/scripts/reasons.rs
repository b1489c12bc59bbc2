//! Why scripts fail that we do not mean to pass, from a file of reasons.
//!
//! A reason is a line that begins with `#`, or more of them; below it are the scripts, one a line, with `*` for any text. The first
//! fitting one counts. So a script that passes may lie among others that do not.

/// The reasons of a set.
pub(super) struct Reasons(Vec<Reason>);

/// A reason and the scripts that fail for it.
pub(super) struct Reason {
    pub(super) text: String,
    pub(super) patterns: Vec<String>,
}

impl Reasons {
    pub(super) fn parse(text: &str) -> Self {
        let mut reasons: Vec<Reason> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match (line.strip_prefix('#'), reasons.last_mut()) {
                (Some(more), Some(last)) if last.patterns.is_empty() => {
                    last.text.push(' ');
                    last.text.push_str(more.trim());
                }
                (Some(new), _) => {
                    reasons.push(Reason { text: new.trim().to_owned(), patterns: Vec::new() });
                }
                (None, Some(last)) => last.patterns.push(line.to_owned()),
                (None, None) => {}
            }
        }
        Self(reasons)
    }

    /// The number of the reason why a script fails.
    pub(super) fn of(&self, script: &str) -> Option<usize> {
        self.0.iter().position(|reason| reason.patterns.iter().any(|pattern| fits(pattern, script)))
    }

    pub(super) fn all(&self) -> &[Reason] {
        &self.0
    }
}

/// Whether a path is as the pattern says, with `*` for any text.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(mut path) = path.strip_prefix(start) else { return false };
    loop {
        if fits(rest, path) {
            return true;
        }
        let mut letters = path.chars();
        if letters.next().is_none() {
            return false;
        }
        path = letters.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, path, does_fit) in [
            ("a/b.pkt", "a/b.pkt", true),
            ("a/b.pkt", "a/b.pkts", false),
            ("fast/*", "fast/server/b.pkt", true),
            ("*-secure-*", "x/rst-secure-ipv4.pkt", true),
            ("*-secure-*", "x/rst-insecure-ipv4.pkt", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
        ] {
            assert_eq!(fits(pattern, path), does_fit, "{pattern} and {path}");
        }
    }

    #[test]
    fn the_first_reason_counts() {
        let reasons = Reasons::parse("# One,\n# in two lines.\na/*\n\n# Another one.\na/b\nc\n");
        assert_eq!(reasons.all()[0].text, "One, in two lines.");
        assert_eq!((reasons.of("a/b"), reasons.of("c"), reasons.of("d")), (Some(0), Some(1), None));
    }

    #[test]
    fn the_files_of_all_sets_give_a_reason_for_each_line() {
        for name in ["google", "linux", "freebsd"] {
            let set = crate::Set::named(name).expect("a set");
            let reasons = Reasons::parse(set.reasons);
            assert!(set.reasons.is_empty() || !reasons.all().is_empty(), "{name}");
            for reason in reasons.all() {
                assert!(!reason.patterns.is_empty(), "{name}: {:?} is of no script", reason.text);
            }
        }
    }
}
