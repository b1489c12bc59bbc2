//! Single requests while the system calls of the server's process are counted.

use std::collections::BTreeMap;

use anywire_advice::Message;
use anywire_loops::clock::precise;
use anywire_sys::syscalls::CallsOfThreads;

use super::super::target::Target;

/// The system calls of one request, by name.
pub(crate) async fn count(
    target: &Target,
    tids: impl Iterator<Item = i32>,
) -> Result<BTreeMap<String, f64>, Message> {
    let mut calls = CallsOfThreads::new(tids).map_err(Message::read)?;
    // The connection is made, and accepted, before the counting begins.
    let mut line = target.open_and_get().await.map_err(|fault| fault.message)?;
    let question = target.get();
    let begun = precise();
    let unread = |error: std::io::Error| {
        Message::read(format_args!("reading the counters of system calls failed: {error}"))
    };
    calls.enable().map_err(unread)?;
    let mut answers = 0_u32;
    while answers < REQUESTS && !target.is_over(begun) {
        let answer = line.exchange(&question, target.patience()).await.map_err(|fault| fault.message)?;
        answers += 1;
        if !answer.keep_alive {
            break;
        }
    }
    calls.disable().map_err(unread)?;
    let counted = calls.read().map_err(unread)?;
    if answers == 0 {
        return Err("the probe was ended before the first answer".into());
    }
    let each = |(name, count): (&str, u64)| (name.to_owned(), count as f64 / f64::from(answers));
    Ok(counted.into_iter().map(each).collect())
}

/// Enough for the calls of other work of the process to be few beside theirs.
const REQUESTS: u32 = 100;
