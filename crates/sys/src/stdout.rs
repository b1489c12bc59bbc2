//! Whether this process was given a standard output at all.
//!
//! Rust's runtime opens `/dev/null` in the place of a standard descriptor that is closed, before `main` begins. What is
//! written then is lost, and every write succeeds. `/dev/null` may also be what the user has chosen, so the only moment to
//! tell the two apart is before the runtime starts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output was closed when the process started, as by `>&-` of a shell. Whoever prints a result should
/// fail then as if the write had.
///
/// ```
/// assert!(!anywire_sys::stdout::was_closed());
/// ```
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: the system calls the functions of this section on the one thread there is, before `main`. This one makes a system
// call that reads, and writes an atomic of its own: it needs nothing of Rust's runtime.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes no argument and asks for the flags of a number, which need not be open.
    #[allow(unsafe_code)]
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}
