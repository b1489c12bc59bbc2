//! An Ethernet switch within one core: what its ports send reaches other ports as it is, without a
//! copy.
//!
//! It joins engines of one process, so that a million connections need no kernel and no second machine. A
//! [`Port`] is a [`Device`](crate::device::Device); a batch whose frames all go to one port is handed over
//! whole.
//!
//! # How frames find their way
//!
//! - To the address of a port, or to one that a port has sent from: to that port alone.
//! - To everybody, to a group, or to an address unknown so far: once to each port but the sender's.
//! - To an address behind the port that it came from: nowhere.
//!
//! The switch itself answers neither ARP nor ICMP. [`SwitchCounters`] counts the frames that it cannot forward.
//!
//! # Back-pressure
//!
//! Each port has a bounded queue. [`room`](crate::device::Device::room) is the room of the fullest port that this
//! port has lately sent to, so a sender that asks first loses nothing. If a full port takes no frame for
//! [`patience`](Limits::patience), its senders no longer wait: frames to it are dropped and counted.

mod counters;
mod fabric;
mod learning;
mod limits;
mod port;
mod queue;

use std::cell::RefCell;
use std::rc::Rc;

use anywire_tcp::Mac;

pub use self::counters::SwitchCounters;
pub use self::limits::{Limits, Settings, SwitchError};
pub use self::port::Port;

use self::fabric::Fabric;

/// The switch. Clones are the same switch; it lives until the last of them and of its ports is dropped.
///
/// ```
/// use anywire_stack::device::Device;
/// use anywire_stack::switch::{Settings, Switch};
/// use anywire_tcp::{Frames, Instant, Mac};
///
/// let switch = Switch::new(Settings::default());
/// let mut one = switch.port(Mac::new([2, 0, 0, 0, 1, 1]))?;
/// let mut two = switch.port(Mac::new([2, 0, 0, 0, 1, 2]))?;
///
/// let mut frames = Frames::new();
/// let mut frame = [0; 60];
/// frame[0..6].copy_from_slice(&[2, 0, 0, 0, 1, 2]);
/// frame[6..12].copy_from_slice(&[2, 0, 0, 0, 1, 1]);
/// assert!(frames.push(&frame));
///
/// let now = Instant::default();
/// assert_eq!(one.transmit(now, &mut frames), 1);
/// assert_eq!(two.receive(now, &mut frames), 1);
/// assert_eq!(&frames[0], frame);
/// # Ok::<(), anywire_stack::switch::SwitchError>(())
/// ```
#[derive(Clone)]
pub struct Switch {
    fabric: Rc<RefCell<Fabric>>,
}

impl Switch {
    /// A switch without ports.
    pub fn new(settings: Settings) -> Self {
        Self { fabric: Rc::new(RefCell::new(Fabric::new(settings))) }
    }

    /// Another port, whose owner has this address. It is freed when it is dropped.
    ///
    /// # Errors
    ///
    /// [`SwitchError::PortsExhausted`] at the [limit](Limits::ports), [`SwitchError::AddressTaken`] if
    /// another port has the address, [`SwitchError::NotAStation`] if it is one of a group.
    pub fn port(&self, mac: Mac) -> Result<Port, SwitchError> {
        let index = self.fabric.borrow_mut().open(mac)?;
        Ok(Port { fabric: Rc::clone(&self.fabric), index })
    }

    /// How many addresses it has learned and still holds. Addresses of its ports do not count.
    pub fn stations(&self) -> usize {
        self.fabric.borrow().stations.learned()
    }

    /// The counters so far.
    pub fn counters(&self) -> SwitchCounters {
        self.fabric.borrow().counters
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("counters", &self.counters()).finish_non_exhaustive()
    }
}
