//! The addresses that the loops of a device share. One loop probes for each, announces and defends it; the others use it once it is
//! ready. Which of them answers a neighbour that asks for it is the matter of [`Steering`](super::steering::Steering::answers).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anywire_tcp::Mac;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use super::steering::LoopNumber;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct SharedAddresses {
    /// Addresses that nobody on the link had when it was asked, which was then.
    free: Mutex<HashMap<IpAddr, Instant>>,
    addresses: Mutex<HashMap<IpAddr, Shared>>,
    has_changed: Notify,
}

#[derive(Debug)]
struct Shared {
    stage: Stage,
    /// The loops that use it. The first one leads: it announces and defends it.
    users: Vec<LoopNumber>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Probed,
    Ready,
    /// Somebody else has it.
    InUse(Mac),
}

/// What a loop that wants an address has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Probe for it, and say how that went.
    Probe,
    /// Use it: another loop leads it.
    Follow,
    /// Wait for the loop that probes for it.
    Wait,
    /// The loop that was waited for has found that somebody else has it.
    InUse(Mac),
}

impl SharedAddresses {
    /// Nobody on the link has this address, which need not be asked for again for a while.
    pub(super) fn note_free(&self, ip: IpAddr) {
        self.free().insert(ip, Instant::now());
    }

    pub(super) fn is_free(&self, ip: IpAddr) -> bool {
        self.free().get(&ip).is_some_and(|noted| noted.elapsed() < FREE_FOR)
    }

    /// The same, once: the next time it may have been given to somebody else meanwhile.
    pub(super) fn take_free(&self, ip: IpAddr) -> bool {
        self.free().remove(&ip).is_some_and(|noted| noted.elapsed() < FREE_FOR)
    }

    /// A loop wants an address. `has_waited` says that it has been told to wait before.
    pub(super) fn want(&self, ip: IpAddr, number: LoopNumber, has_waited: bool) -> Step {
        let mut addresses = self.addresses();
        let shared = addresses.entry(ip).or_insert(Shared { stage: Stage::Probed, users: Vec::new() });
        match shared.stage {
            Stage::InUse(by) if has_waited => return Step::InUse(by),
            Stage::Probed if !shared.users.is_empty() => return Step::Wait,
            Stage::Ready if !shared.users.is_empty() => {
                shared.users.push(number);
                return Step::Follow;
            }
            _ => {}
        }
        *shared = Shared { stage: Stage::Probed, users: vec![number] };
        Step::Probe
    }

    /// The loop has found that nobody else has it.
    pub(super) fn set_ready(&self, ip: IpAddr, number: LoopNumber) {
        self.settle(ip, number, |shared| shared.stage = Stage::Ready);
    }

    /// Somebody else has it.
    pub(super) fn set_in_use(&self, ip: IpAddr, number: LoopNumber, by: Mac) {
        self.settle(ip, number, |shared| *shared = Shared { stage: Stage::InUse(by), users: Vec::new() });
    }

    /// This loop does not use it any more, or cannot. Others may try.
    pub(super) fn give_up(&self, ip: IpAddr, number: LoopNumber) {
        self.settle(ip, number, |shared| shared.users.retain(|user| *user != number));
    }

    /// Whether this loop leads an address, since those before it have ended.
    pub(super) fn leads(&self, ip: IpAddr, number: LoopNumber) -> bool {
        self.addresses().get(&ip).is_some_and(|shared| shared.users.first() == Some(&number))
    }

    /// Whether a loop has an address, or asks for it.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.addresses().get(&ip).is_some_and(|shared| !shared.users.is_empty())
    }

    /// The loop has ended.
    pub(super) fn leave(&self, number: LoopNumber) {
        let mut addresses = self.addresses();
        addresses.values_mut().for_each(|shared| shared.users.retain(|user| *user != number));
        addresses.retain(|_, shared| !shared.users.is_empty());
        drop(addresses);
        self.has_changed.notify_waiters();
    }

    /// Resolves when something has changed since this was called.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.has_changed.notified()
    }

    /// Changes an address for which this loop is the first.
    fn settle(&self, ip: IpAddr, number: LoopNumber, change: impl FnOnce(&mut Shared)) {
        let mut addresses = self.addresses();
        if let Some(own) = addresses.get_mut(&ip).filter(|shared| shared.users.contains(&number)) {
            change(own);
        }
        drop(addresses);
        self.has_changed.notify_waiters();
    }

    fn free(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        // Nothing panics while the lock is held.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Shared>> {
        // Nothing panics while the lock is held.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long an address that was probed counts as free: a service that begins within it does not probe again.
const FREE_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn one_loop_probes_and_the_others_follow() {
        let table = SharedAddresses::default();
        assert_eq!(table.want(IP, 1, false), Step::Probe);
        assert_eq!((table.want(IP, 2, false), table.leads(IP, 1)), (Step::Wait, true));
        table.set_ready(IP, 1);
        assert_eq!((table.want(IP, 2, true), table.want(IP, 3, false)), (Step::Follow, Step::Follow));
        assert!(table.leads(IP, 1) && !table.leads(IP, 2));
        table.leave(1);
        assert!(table.leads(IP, 2) && !table.leads(IP, 3) && table.has(IP));
        table.leave(2);
        table.leave(3);
        assert!(!table.has(IP));
        assert_eq!(table.want(IP, 4, false), Step::Probe, "all that used it have ended");
    }

    #[test]
    fn who_waited_hears_how_it_went_and_the_next_one_probes_anew() {
        let (table, mac) = (SharedAddresses::default(), Mac::new([2, 0, 0, 0, 0, 9]));
        assert_eq!((table.want(IP, 1, false), table.want(IP, 2, false)), (Step::Probe, Step::Wait));
        table.set_in_use(IP, 1, mac);
        assert_eq!(table.want(IP, 2, true), Step::InUse(mac));
        assert_eq!(table.want(IP, 3, false), Step::Probe);
        // One that ends while it probes, or fails otherwise.
        table.leave(3);
        assert_eq!(table.want(IP, 2, true), Step::Probe);
        table.give_up(IP, 2);
        assert_eq!(table.want(IP, 1, true), Step::Probe);
    }

    /// A service that begins long after it was bound asks anew.
    #[tokio::test(start_paused = true)]
    async fn an_address_is_free_for_a_while() {
        let table = SharedAddresses::default();
        for (seconds, is_free) in [(9, true), (11, false)] {
            table.note_free(IP);
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!((table.is_free(IP), table.take_free(IP)), (is_free, is_free), "{seconds} s");
            assert!(!table.take_free(IP), "it is taken once");
        }
    }
}
