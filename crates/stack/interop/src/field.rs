//! Two namespaces that are joined by an impaired line, and the ends of that line.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::child::{Role, Where};
use crate::end::{self, End, EnginePlan};
use crate::impairment::Impairment;
use crate::line;
use crate::shell;
use crate::transfer::{Answer, Order, Outcome, Part, Transfer};

/// How a field is to be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program that [serves roles](crate::serve_role).
    pub program: PathBuf,
    /// How bad the line is.
    pub impairment: Impairment,
    /// Bytes that the engine keeps of a connection at most, in each direction.
    pub window_bytes: u32,
    /// Cores of the line, of the left ends and of the right one; none for any.
    pub cores: [Option<usize>; 3],
}

/// Two namespaces, a line, and its ends. Dropping it ends the processes; the devices stay in the namespace of this process until the
/// next field takes their names.
pub struct Field {
    engine: End,
    left: End,
    right: End,
    right_too: End,
    _line: Role,
    port: u16,
    congestion_control: String,
}

/// An end of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// The engine, on the left.
    Engine,
    /// The kernel on the left.
    Left,
    /// The kernel on the right.
    Right,
    /// The same kernel, for a second transfer at the same time.
    RightToo,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// 4.
    V4,
    /// 6.
    V6,
}

impl Field {
    /// Sets one up in the namespace of this process, which must be [its own](crate::in_own_network).
    ///
    /// # Errors
    /// The system lacks TAP devices, bridges or tools.
    pub fn set_up(plan: &Plan) -> Result<Self> {
        shell::run(MAKE)?;
        let [line_core, left_core, right_core] = plan.cores;
        let kernel = |core, place| End::start(&plan.program, &end::Plan { engine: None, core }, place);
        let right = kernel(right_core, Where::New)?;
        let right_too = kernel(right_core, Where::Beside(right.id()))?;
        let line = line::Plan {
            left: "left".to_owned(),
            right: "right".to_owned(),
            impairment: plan.impairment,
            core: line_core,
        };
        let line = Role::start(&plan.program, line::ROLE, &line, Where::Here)?;
        shell::run(&format!("ip link set right netns {}", right.id()))?;
        shell::run_in(right.id(), RIGHT)?;
        let engine = EnginePlan {
            device: "ours".to_owned(),
            addresses: [Version::V4, Version::V6].map(|version| LineEnd::Engine.ip(version)).to_vec(),
            networks: NETWORKS.map(str::to_owned).to_vec(),
            window_bytes: plan.window_bytes,
        };
        let engine = end::Plan { engine: Some(engine), core: left_core };
        let engine = End::start(&plan.program, &engine, Where::Here)?;
        let left = kernel(left_core, Where::Here)?;
        shell::run(LEFT)?;
        Ok(Self {
            engine,
            left,
            right,
            right_too,
            _line: line,
            port: 1024,
            congestion_control: String::new(),
        })
    }

    /// Has the kernels' connections send by this congestion control, from the next transfer on.
    pub fn set_congestion_control(&mut self, name: &str) {
        name.clone_into(&mut self.congestion_control);
    }

    /// Transfers between two ends, and gives what the caller saw and what the listener saw.
    ///
    /// # Errors
    /// An end has seen something that must not be; or has ended.
    pub fn transfer(
        &mut self,
        caller: LineEnd,
        listener: LineEnd,
        version: Version,
        transfer: Transfer,
    ) -> Result<[Outcome; 2]> {
        let mut all = self.transfer_at_once(&[(caller, listener)], version, transfer)?;
        Ok(all.remove(0))
    }

    /// Several transfers at the same time; no end is in two of them.
    ///
    /// # Errors
    /// As [`transfer`](Self::transfer).
    pub fn transfer_at_once(
        &mut self,
        pairs: &[(LineEnd, LineEnd)],
        version: Version,
        transfer: Transfer,
    ) -> Result<Vec<[Outcome; 2]>> {
        for &(caller, listener) in pairs {
            // A port of its own, below those of callers: a late segment meets no listener.
            self.port += 1;
            let address = SocketAddr::new(listener.ip(version), self.port);
            let congestion_control = self.congestion_control.clone();
            let order = Order { part: Part::Listen, address, transfer, congestion_control };
            self.end(listener).say(&order)?;
            match self.end(listener).hear()? {
                Answer::Listening => {}
                other => bail!("the listener did not begin: {other:?}"),
            }
            self.end(caller).say(&Order { part: Part::Call, ..order })?;
        }
        let hear = |field: &mut Self, caller, listener| -> Result<[Outcome; 2]> {
            let called = field.end(caller).hear()?;
            let listened = field.end(listener).hear()?;
            match (called, listened) {
                (Answer::Done(called), Answer::Done(listened)) => Ok([called, listened]),
                (Answer::Failed(one), Answer::Failed(other)) => bail!("caller: {one}; listener: {other}"),
                (Answer::Failed(fault), _) => bail!("caller: {fault}"),
                (_, Answer::Failed(fault)) => bail!("listener: {fault}"),
                (one, other) => bail!("the ends said {one:?} and {other:?}"),
            }
        };
        pairs.iter().map(|&(caller, listener)| hear(self, caller, listener)).collect()
    }

    /// A command that runs on the right.
    pub fn right_command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.right.id().to_string(), "--net", program]);
        command
    }

    fn end(&mut self, host: LineEnd) -> &mut End {
        match host {
            LineEnd::Engine => &mut self.engine,
            LineEnd::Left => &mut self.left,
            LineEnd::Right => &mut self.right,
            LineEnd::RightToo => &mut self.right_too,
        }
    }
}

impl LineEnd {
    /// Its address.
    pub fn ip(self, version: Version) -> IpAddr {
        let number = match self {
            Self::Left => 1,
            Self::Engine => 2,
            Self::Right | Self::RightToo => 3,
        };
        match version {
            Version::V4 => IpAddr::from([10, 77, 0, number]),
            Version::V6 => IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, u16::from(number)]),
        }
    }
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];
}

const NETWORKS: [&str; 2] = ["10.77.0.0/24", "fd77::/64"];

/// The devices of the left namespace, without those of an earlier field.
const MAKE: &str = "
for name in bridge ours left; do ip link del $name 2>/dev/null || true; done
ip link set lo up
ip tuntap add dev ours mode tap
ip tuntap add dev left mode tap
ip tuntap add dev right mode tap
ip link add bridge type bridge mcast_snooping 0 forward_delay 0 stp_state 0";

/// The left side, once its devices are open.
const LEFT: &str = "
for name in ours left; do ip link set $name master bridge up; done
ip link set bridge up
ip addr add 10.77.0.1/24 dev bridge
ip addr add fd77::1/64 dev bridge nodad
echo 10000 65535 > /proc/sys/net/ipv4/ip_local_port_range
echo 16384 > /proc/sys/net/core/somaxconn
echo 16384 > /proc/sys/net/ipv4/tcp_max_syn_backlog";

/// The right side.
const RIGHT: &str = "
ip link set lo up
ip link set right up
ip addr add 10.77.0.3/24 dev right
ip addr add fd77::3/64 dev right nodad
echo 10000 65535 > /proc/sys/net/ipv4/ip_local_port_range
echo 16384 > /proc/sys/net/core/somaxconn
echo 16384 > /proc/sys/net/ipv4/tcp_max_syn_backlog";
