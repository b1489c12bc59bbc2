//! Where AF_XDP is missing or forbidden, a service on `xdp:` does not start and says what would help; the interface stays as it was.

use std::process::Output;
use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::common::{stderr, stdout};
use crate::namespaces::{with_tap, with_veth};

const SERVE: &str = r#"
    timeout 20 "$0" serve --listen stack:xdp:ours/10.0.0.2:8080; echo "$?"
    ip -o link show ours | grep -c xdp
"#;

/// Starts the service where this system call fails so, as on a kernel that was built without.
fn serve_without(call: i64, rules: Vec<SeccompRule>, errno: rustix::io::Errno) -> Option<Output> {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that seccomp knows");
    let refuse = SeccompAction::Errno(errno.raw_os_error() as u32);
    let filter = SeccompFilter::new([(call, rules)].into(), SeccompAction::Allow, refuse, arch);
    let program: BpfProgram = filter.expect("one rule").try_into().expect("a program of a few lines");
    // What the thread starts is restricted as well.
    let run = thread::spawn(move || {
        seccompiler::apply_filter(&program).expect("a thread may restrict itself");
        with_veth(SERVE)
    });
    run.join().expect("it does not panic")
}

#[test]
fn a_kernel_that_has_none() {
    let is_xdp = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, AF_XDP);
    let of_xdp = SeccompRule::new(vec![is_xdp.expect("a condition")]).expect("a rule");
    for (call, rules, errno) in
        [(SOCKET, vec![of_xdp], rustix::io::Errno::AFNOSUPPORT), (BPF, Vec::new(), rustix::io::Errno::NOSYS)]
    {
        let Some(output) = serve_without(call, rules, errno) else { return };
        let wrong = stderr(&output);
        assert_eq!(stdout(&output), "1\n0\n", "{wrong}");
        assert!(wrong.contains("this kernel has no AF_XDP") && wrong.contains("tap:NAME"), "{wrong}");
    }
}

#[test]
fn a_user_who_may_not() {
    let script = r#"timeout 20 "$0" serve --listen stack:xdp:tap0/10.0.0.2:8080; echo "$?""#;
    let Some(output) = with_tap(script) else { return };
    let wrong = stderr(&output);
    assert_eq!(stdout(&output), "1\n", "{wrong}");
    assert!(wrong.contains("not permitted") && wrong.contains("CAP_BPF"), "{wrong}");
}

const AF_XDP: u64 = 44;
const SOCKET: i64 = if cfg!(target_arch = "x86_64") { 41 } else { 198 };
const BPF: i64 = if cfg!(target_arch = "x86_64") { 321 } else { 280 };
