//! What is told of a run: a line for each script, sums, and tables for a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::reasons::Reasons;
use super::run::{Outcome, Verdict};

/// A run that is over.
pub(super) struct Report<'a> {
    outcomes: Vec<Outcome>,
    reasons: &'a Reasons,
    /// All scripts of the set were run.
    is_whole: bool,
}

/// A line of the list.
pub(super) fn line(outcome: &Outcome, reasons: &Reasons) -> String {
    let (verdict, rest) = match &outcome.verdict {
        Verdict::Pass => ("pass".to_owned(), String::new()),
        Verdict::Apart(what) => (format!("pass, {what} apart"), String::new()),
        Verdict::Fail(difference) => {
            let reason = reasons.of(&outcome.script).map_or_else(|| "no reason".to_owned(), letter);
            (format!("FAIL ({reason})"), difference.clone())
        }
    };
    format!("{:<92} {verdict:<28} {rest}", outcome.script).trim_end().to_owned()
}

impl<'a> Report<'a> {
    pub(super) const fn new(outcomes: Vec<Outcome>, reasons: &'a Reasons, is_whole: bool) -> Self {
        Self { outcomes, reasons, is_whole }
    }

    /// Whether each script that fails has a reason.
    pub(super) fn is_explained(&self) -> bool {
        self.failing().all(|script| self.reasons.of(script).is_some())
    }

    fn failing(&self) -> impl Iterator<Item = &str> {
        let failing = self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Fail(_)));
        failing.map(|outcome| outcome.script.as_str())
    }

    /// Scripts by what they pass without: nothing first.
    fn passing(&self) -> BTreeMap<&'static str, usize> {
        let mut passing = BTreeMap::new();
        for outcome in &self.outcomes {
            match outcome.verdict {
                Verdict::Pass => *passing.entry("").or_insert(0) += 1,
                Verdict::Apart(what) => *passing.entry(what).or_insert(0) += 1,
                Verdict::Fail(_) => {}
            }
        }
        passing
    }

    /// Failing scripts by the number of their reason; those without one last.
    fn by_reason(&self) -> BTreeMap<usize, Vec<&str>> {
        let mut failing: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for script in self.failing() {
            failing.entry(self.reasons.of(script).unwrap_or(usize::MAX)).or_default().push(script);
        }
        failing
    }

    fn in_a_sentence(&self) -> String {
        let passing = self.passing();
        let mut parts = vec![format!("{} pass", passing.get("").copied().unwrap_or(0))];
        let apart = passing.iter().filter(|(what, _)| !what.is_empty());
        parts.extend(apart.map(|(what, count)| format!("{count} more but for {what}")));
        format!("Of {} scripts {}; {} fail.", self.outcomes.len(), parts.join(", "), self.failing().count())
    }

    /// The sums, and what the file of reasons lacks or has too much.
    pub(super) fn summary(&self) -> String {
        let mut text = format!("\n{}\n", self.in_a_sentence());
        for (number, scripts) in self.by_reason() {
            match self.reasons.all().get(number) {
                Some(reason) => {
                    let _ = writeln!(text, "({}) {:>4}  {}", letter(number), scripts.len(), reason.text);
                }
                None => {
                    let _ = writeln!(text, "{} without a reason:", scripts.len());
                    scripts.iter().for_each(|script| {
                        let _ = writeln!(text, "    {script}");
                    });
                }
            }
        }
        for (reason, pattern) in self.unneeded() {
            let _ = writeln!(text, "not needed any more: {pattern}  ({reason})");
        }
        text
    }

    /// Patterns of the file of reasons that no failing script has.
    fn unneeded(&self) -> Vec<(&str, &str)> {
        if !self.is_whole {
            return Vec::new();
        }
        let failing: Vec<&str> = self.failing().collect();
        let all = self.reasons.all().iter().flat_map(|reason| {
            reason.patterns.iter().map(|pattern| (reason.text.as_str(), pattern.as_str()))
        });
        all.filter(|(_, pattern)| !failing.iter().any(|script| super::reasons::fits(pattern, script)))
            .collect()
    }

    /// Two tables: what came of the scripts of each folder, and why some fail.
    pub(super) fn tables(&self) -> String {
        let mut folders: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for outcome in &self.outcomes {
            let folder = outcome.script.rsplit_once('/').map_or(".", |(folder, _)| folder);
            let counts = folders.entry(folder).or_default();
            match outcome.verdict {
                Verdict::Pass => counts[0] += 1,
                Verdict::Apart(_) => counts[1] += 1,
                Verdict::Fail(_) => counts[2] += 1,
            }
        }
        let mut text = format!(
            "{}\n\n| scripts | pass | in part | fail |\n| --- | --- | --- | --- |\n",
            self.in_a_sentence()
        );
        for (folder, counts) in folders {
            let [pass, apart, fail] =
                counts.map(|count| if count == 0 { String::new() } else { count.to_string() });
            let _ = writeln!(text, "| {folder} | {pass} | {apart} | {fail} |");
        }
        text.push_str("\n| | fail | why |\n| --- | --- | --- |\n");
        for (number, scripts) in self.by_reason() {
            let reason = self.reasons.all().get(number);
            let name = reason.map_or_else(String::new, |_| format!("**({})**", letter(number)));
            let why = reason.map_or("not known", |reason| &reason.text);
            let _ = writeln!(text, "| {name} | {} | {why} |", scripts.len());
        }
        text
    }
}

/// The name of a reason by its number: a letter, and two from the 27th on.
fn letter(number: usize) -> String {
    let of = |number: usize| char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => of(number).to_string(),
        more => format!("{}{}", of(more - 1), of(number)),
    }
}

/// Puts tables into a page, between the two lines that name the set.
pub(super) fn write_into(page: &Path, set: &str, tables: &str) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", page.display());
    let text = std::fs::read_to_string(page).map_err(fault)?;
    let (start, end) = (format!("<!-- packetdrill {set} -->\n"), format!("<!-- end of {set} -->"));
    let split = text.split_once(&start).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, behind)) = split else {
        return Err(format!("{} has no lines {} and {end}", page.display(), start.trim()));
    };
    std::fs::write(page, format!("{before}{start}\n{tables}\n{end}{behind}")).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes() -> Vec<Outcome> {
        let all = [
            ("close/a.pkt", Verdict::Pass),
            ("close/b.pkt", Verdict::Apart("PSH")),
            ("fast/c.pkt", Verdict::Fail("line 3: no".to_owned())),
            ("sack/d.pkt", Verdict::Fail("line 4: no".to_owned())),
        ];
        all.map(|(script, verdict)| Outcome { script: script.to_owned(), verdict }).to_vec()
    }

    #[test]
    fn failing_scripts_without_a_reason_are_named() {
        let reasons = Reasons::parse("# Not offered.\nfast/*\n# Gone.\nold/*\n");
        let report = Report::new(outcomes(), &reasons, true);
        assert!(!report.is_explained());
        let summary = report.summary();
        for part in [
            "Of 4 scripts 1 pass, 1 more but for PSH; 2 fail.",
            "(a)    1  Not offered.",
            "    sack/d.pkt",
            "not needed any more: old/*",
        ] {
            assert!(summary.contains(part), "{part} is in {summary}");
        }
        assert!(line(&report.outcomes[2], &reasons).ends_with("FAIL (a)                     line 3: no"));
    }

    #[test]
    fn tables_replace_those_of_the_last_run() {
        let page = std::env::temp_dir().join(format!("anywire-packetdrill-page-{}", std::process::id()));
        std::fs::write(&page, "one\n<!-- packetdrill google -->\nold\n<!-- end of google -->\ntwo\n")
            .expect("a file");
        let reasons = Reasons::parse("# Not offered.\nfast/*\n# Ours.\nsack/*\n");
        let report = Report::new(outcomes(), &reasons, true);
        assert!(report.is_explained());
        for _ in 0..2 {
            write_into(&page, "google", &report.tables()).expect("the lines are there");
        }
        let text = std::fs::read_to_string(&page).expect("a file");
        assert!(
            text.starts_with("one\n")
                && text.ends_with("<!-- end of google -->\ntwo\n")
                && !text.contains("old")
        );
        assert!(
            text.contains("| close | 1 | 1 |  |\n") && text.contains("| **(b)** | 1 | Ours. |\n"),
            "{text}"
        );
        assert!(write_into(&page, "linux", "").is_err());
        std::fs::remove_file(&page).expect("it was there");
    }

    #[test]
    fn reasons_have_letters() {
        assert_eq!([0, 25, 26, 53].map(letter), ["a", "z", "aa", "bb"]);
    }
}
