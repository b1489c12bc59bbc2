//! What a process does last.
//!
//! The kernel closes the sockets of a process that ends. What a process keeps for itself, such as TCP of its own, has nobody to close
//! it, so it registers a function here.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::OnceLock;

/// Has `last` called when the process ends in order: `main` returns, or [`std::process::exit`] is called. A signal or an abort
/// ends it without. Other threads still run meanwhile. Only the first function counts, and a forked child does not call it.
///
/// Thread-local values of the calling thread may be gone already. A panic of `last` ends there.
///
/// Returns false if there is a function already, or the system takes no more of them.
pub fn at_exit(last: fn()) -> bool {
    if LAST.set((last, std::process::id())).is_err() {
        return false;
    }
    // SAFETY: `call_last` is a function of this program, which is never unloaded before its end, and lets no panic out.
    let refused: c_int = unsafe { libc::atexit(call_last) };
    refused == 0
}

extern "C" fn call_last() {
    if let Some((last, process)) = LAST.get()
        && *process == std::process::id()
    {
        // The panic was reported when it began.
        let _ = catch_unwind(last);
    }
}

/// What is called, and the process that registered it.
static LAST: OnceLock<(fn(), u32)> = OnceLock::new();
