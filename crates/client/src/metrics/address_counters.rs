//! What a client counts of each address of an origin that has several.

use anywire_wire::Address;

use crate::Client;
use crate::pool::loop_pools::LoopPools;

/// One of the addresses of a [`Balance`](crate::Balance), over all loops of a client.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct AddressCounters {
    /// The origin that has it.
    pub origin: String,
    /// The address.
    #[serde(serialize_with = "as_text")]
    pub address: Address,
    /// Calls that went there, those that came from another address included.
    pub calls: u64,
    /// Dials and calls that failed there, and with [`eject_on_statuses`](crate::Balance::eject_on_statuses) responses of these statuses.
    pub failures: u64,
    /// Calls on its connections, and those that wait for one, now.
    pub in_flight: u64,
    /// How often it was out, counted on each loop.
    pub ejected: u64,
    /// Loops on which it is out now.
    pub out: u64,
}

impl Client {
    /// What was counted of each address of [balanced](crate::ClientBuilder::balance) origins, in the order of origins and
    /// addresses. Each loop is asked, so that a call pays nothing for it. An address that its name has no longer is left out.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) {
    /// for one in client.address_counters().await {
    ///     println!("{} {}: {} calls, {} failed, {} now", one.origin, one.address, one.calls, one.failures, one.in_flight);
    /// }
    /// # }
    /// ```
    pub async fn address_counters(&self) -> Vec<AddressCounters> {
        let id = self.handle.id();
        let look = move || async move {
            LoopPools::find(id).map(|local| local.address_counters()).unwrap_or_default()
        };
        let tasks: Vec<_> = self.handle.used_loops().map(|one| one.handle.spawn_always(look)).collect();
        let mut all: Vec<AddressCounters> = Vec::new();
        for task in tasks {
            // A loop that has ended has no calls.
            for one in task.await.unwrap_or_default() {
                match all.iter_mut().find(|known| known.origin == one.origin && known.address == one.address)
                {
                    Some(known) => known.add(&one),
                    None => all.push(one),
                }
            }
        }
        // Of one origin they stay in the order of the list.
        all.sort_by(|one, other| one.origin.cmp(&other.origin));
        all
    }
}

fn as_text<S: serde::Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(address)
}

impl AddressCounters {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.in_flight += other.in_flight;
        self.ejected += other.ejected;
        self.out += other.out;
    }
}
