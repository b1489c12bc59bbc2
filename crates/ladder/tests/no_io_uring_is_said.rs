//! Where io_uring is forbidden or missing, its rung says so, and all others run.

use std::thread;

use anywire_ladder::{Options, RUNGS, Rung, StartError};
use anywire_sys::uring::UringError;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Starts the rung on a thread whose calls of io_uring_setup fail so, as in a container's seccomp profile.
fn start_without(rung: &'static Rung, errno: rustix::io::Errno) -> Result<(), StartError> {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that seccomp knows");
    let rules = [(IO_URING_SETUP, Vec::new())].into();
    let refuse = SeccompAction::Errno(errno.raw_os_error() as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter of one rule");
    let program: BpfProgram = filter.try_into().expect("a program of a few lines");
    let started = thread::spawn(move || {
        seccompiler::apply_filter(&program).expect("a thread may restrict itself");
        rung.start(Options::default()).map(drop)
    });
    started.join().expect("it does not panic")
}

#[test]
fn a_profile_that_forbids_it_is_named() {
    let rung = Rung::named("io_uring").expect("it is a rung");
    for errno in [rustix::io::Errno::PERM, rustix::io::Errno::ACCESS] {
        let error = start_without(rung, errno).expect_err("it is forbidden");
        let StartError::Uring(UringError::Forbidden { .. }) = &error else { panic!("{error:?}") };
        let cause = std::error::Error::source(&error).expect("the reason").to_string();
        assert!(cause.contains("seccomp") || cause.contains("sysctl"), "{cause}");
    }
}

#[test]
fn a_kernel_without_it_is_named() {
    let rung = Rung::named("io_uring").expect("it is a rung");
    let error = start_without(rung, rustix::io::Errno::NOSYS).expect_err("there is none");
    assert!(matches!(error, StartError::Uring(UringError::Missing)), "{error:?}");
    let error = start_without(rung, rustix::io::Errno::INVAL).expect_err("it is too old");
    assert!(matches!(error, StartError::Uring(UringError::TooOld)), "{error:?}");
}

#[test]
fn all_others_run_without_it() {
    for rung in RUNGS.iter().filter(|rung| rung.name != "io_uring") {
        start_without(rung, rustix::io::Errno::PERM).expect("it needs no io_uring");
    }
}

/// The same on all architectures, since it came after their numbers were made alike.
const IO_URING_SETUP: i64 = 425;
