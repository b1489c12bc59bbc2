//! Where scripts run: a folder of its own with stand-ins for the commands that scripts call, so that nothing of this machine is
//! changed. What they set is handed to the engine if it has such a setting.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::set::Set;
use super::translate::{Dialect, Leniency};

/// A folder for one worker.
pub(super) struct Stage {
    root: PathBuf,
    packetdrill: PathBuf,
    shared_object: PathBuf,
}

impl Stage {
    /// Makes the folder.
    pub(super) fn set_up(checkout: &Path) -> Result<Self, String> {
        let packetdrill = checkout.join("gtests/net/packetdrill/packetdrill");
        let packetdrill = fs::canonicalize(&packetdrill).map_err(|_| {
            format!("there is no {}: build it first, as packetdrill's README says", packetdrill.display())
        })?;
        let own = std::env::current_exe().map_err(|error| format!("finding the shared object: {error}"))?;
        let shared_object = own.with_file_name("libanywire_packetdrill.so");
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("anywire-packetdrill-{}-{number}", std::process::id()));
        let stage = Self { root, packetdrill, shared_object };
        // Where scripts look for ./, ../common and ../../common, and what they find there.
        for folder in ["bin", "common", "tcp/common", "tcp/script"] {
            let folder = stage.root.join(folder);
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        stage.put("bin/sysctl", SYSCTL)?;
        for nothing in ["bin/ip", "bin/tc", "bin/ethtool", "bin/kldload", "bin/sysctl_defaults"] {
            stage.put(nothing, NOTHING)?;
        }
        for folder in ["common", "tcp/common", "tcp/script"] {
            stage.put(&format!("{folder}/defaults.sh"), NOTHING)?;
            stage.put(&format!("{folder}/set_sysctls.py"), SET_SYSCTLS)?;
        }
        Ok(stage)
    }

    fn put(&self, path: &str, program: &str) -> Result<(), String> {
        let path = self.root.join(path);
        let is_put = fs::write(&path, program)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
        is_put.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Runs a script. What the first difference is, if there is one.
    pub(super) fn run(&self, set: &Set, text: &str, leniency: Leniency) -> Result<Option<String>, String> {
        let script = self.root.join("tcp/script/script.pkt");
        fs::write(&script, text).map_err(|error| format!("{}: {error}", script.display()))?;
        let (sysctls, undo) = (self.root.join("sysctls"), self.root.join("sysctls.undo"));
        for old in [&sysctls, &undo] {
            // There is none if the last script has set nothing.
            let _ = fs::remove_file(old);
        }
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let address = if of("--ip_version=") == Some("ipv6") { LOCAL_V6 } else { LOCAL_V4 };
        let mtu = of("--mtu=").map(|mtu| format!(",mtu={mtu}")).unwrap_or_default();
        let push = if leniency.push { "hidden" } else { "shown" };
        let flags = format!("address={address},sysctls={},push={push},{}{mtu}", sysctls.display(), set.flags);
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg(&self.packetdrill)
            .arg(format!("--so_filename={}", self.shared_object.display()))
            .arg(format!("--so_flags={flags}"))
            .arg(format!("--local_ip={address}"))
            .args(if set.dialect == Dialect::Linux { DEFINED } else { &[] })
            .arg("script.pkt")
            .current_dir(self.root.join("tcp/script"))
            .env("PATH", format!("{}:{path}", self.root.join("bin").display()))
            .env("SYSCTLS", &sysctls)
            .stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("running packetdrill: {error}"))?;
        // What scripts leave to undo their settings later.
        for left in fs::read_to_string(&undo).unwrap_or_default().lines() {
            let _ = fs::remove_file(left);
        }
        if output.status.success() {
            return Ok(None);
        }
        let complaint = difference(&String::from_utf8_lossy(&output.stderr));
        Ok(Some(if complaint.is_empty() { format!("{}", output.status) } else { complaint }))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What cannot be removed lies in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A complaint of packetdrill in one line.
fn difference(complaint: &str) -> String {
    let line = complaint.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.replace("script.pkt:", "line ").replace("runtime error in ", "");
    let line = line.replace("error handling packet: ", "");
    line.chars().take(260).collect()
}

const LOCAL_V4: &str = "192.168.0.2";
const LOCAL_V6: &str = "fd3d:fa7b:d17d::2";

/// What Linux's own runner defines.
const DEFINED: &[&str] = &["--define", "CMSG_LEVEL_IP=SOL_IP", "--define", "CMSG_TYPE_RECVERR=IP_RECVERR"];

const NOTHING: &str = "#!/bin/sh\n";

const SYSCTL: &str = "#!/bin/sh
for word; do case \"$word\" in *=*) echo \"$word\" >>\"$SYSCTLS\" ;; esac; done
";

/// Also leaves a command to undo what it has set, where scripts look for it.
const SET_SYSCTLS: &str = "#!/bin/sh
undo=\"/tmp/sysctl_restore_$PACKETDRILL_PID.sh\"
printf '#!/bin/sh\\n' >\"$undo\"
chmod u+x \"$undo\"
echo \"$undo\" >>\"$SYSCTLS.undo\"
exec sysctl \"$@\"
";
