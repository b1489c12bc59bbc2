//! All scripts of a set, one by one: found, translated, run, judged.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::reasons::Reasons;
use super::report::{self, Report};
use super::set::Set;
use super::stage::Stage;
use super::translate;

/// What to run.
pub(crate) struct Plan {
    /// A checkout of packetdrill.
    pub(crate) packetdrill: PathBuf,
    pub(crate) set: &'static Set,
    /// Where the set's scripts are.
    pub(crate) folder: PathBuf,
    /// A part of the path of each script to run.
    pub(crate) only: Option<String>,
    /// The file that gets the tables.
    pub(crate) into: Option<PathBuf>,
}

/// What came of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// It passes if this is not compared.
    Apart(&'static str),
    /// The first difference.
    Fail(String),
}

/// A script and its verdict.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// Its path in the set.
    pub(crate) script: String,
    pub(crate) verdict: Verdict,
}

/// Runs a plan, and prints a line for each script and the sums. False if a script fails without a known reason.
pub(crate) fn run(plan: &Plan) -> Result<bool, String> {
    let reasons = Reasons::parse(plan.set.reasons);
    let scripts = find(plan)?;
    if scripts.is_empty() {
        return Err(format!("{}: there is no such script", plan.folder.display()));
    }
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(vec![None; scripts.len()]));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(scripts.len());
    let work = || -> Result<(), String> {
        let stage = Stage::set_up(&plan.packetdrill)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(script) = scripts.get(number) else { return Ok(()) };
            let outcome = Outcome { script: script.clone(), verdict: judge(plan, &stage, script)? };
            println!("{}", report::line(&outcome, &reasons));
            outcomes.lock().expect("no worker has panicked")[number] = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    let outcomes = outcomes.into_inner().expect("no worker has panicked").into_iter().flatten().collect();
    let report = Report::new(outcomes, &reasons, plan.only.is_none());
    print!("{}", report.summary());
    if let Some(file) = &plan.into {
        report::write_into(file, plan.set.name, &report.tables())?;
    }
    Ok(report.is_explained())
}

/// The set's scripts, by their paths in it, in their order.
fn find(plan: &Plan) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    collect(&plan.folder, "", &mut found)?;
    found.retain(|script| {
        plan.set.includes(script) && plan.only.as_ref().is_none_or(|word| script.contains(word))
    });
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<(), String> {
    let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type().map_err(fault)?.is_dir() {
            collect(&entry.path(), &format!("{path}/"), found)?;
        } else if name.ends_with(".pkt") {
            found.push(path);
        }
    }
    Ok(())
}

/// Runs a script, first as it is, and then with less and less compared.
fn judge(plan: &Plan, stage: &Stage, script: &str) -> Result<Verdict, String> {
    let path = plan.folder.join(script);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut first = None;
    for leniency in plan.set.leniencies {
        let text = translate::translate(&text, plan.set.dialect, *leniency);
        match stage.run(plan.set, &text, *leniency)? {
            None if first.is_none() => return Ok(Verdict::Pass),
            None => return Ok(Verdict::Apart(leniency.name)),
            Some(difference) => first = Some(difference),
        }
    }
    Ok(Verdict::Fail(first.unwrap_or_default()))
}
