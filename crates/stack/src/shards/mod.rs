//! One device for several loops: each has an engine, a queue and connections of its own.
//!
//! A frame arrives by the queue that the kernel or the card has chosen. All loops know by one table which of them has which
//! connection, so a loop keeps what is its own and passes the rest on, by a ring to each other loop. What the kernel chooses is therefore
//! a matter of speed alone: over TAP it learns from what a loop sends by which queue the answers are to come, so hardly more than first
//! segments are passed on.
//!
//! # Which loop answers what
//!
//! | what arrives | goes to | is answered by |
//! | --- | --- | --- |
//! | a segment of a connection that was dialled | the loop whose block of ports has its port, whatever the address (a) | that loop |
//! | a segment of a service | the loop of its slot, by a hash of both ends (b) | that loop |
//! | a SYN for a slot whose loop does not listen yet | nobody: it waits, two seconds at most (c) | that loop, once it listens |
//! | an error of ICMP | the loop whose segment it quotes (d) | nobody |
//! | a segment of no connection: to a closed port, or late | the loop that receives it, if that has the address, or else each in turn that has it (e, f) | that loop, with a reset |
//! | an echo request, a datagram | the same (e) | that loop |
//! | ARP and neighbour discovery | all loops, since each knows its own neighbours (g) | the same loop as an echo request, if it is a question or a probe (f) |
//! | a router's question for groups (MLD) | all loops (g) | each loop, for the addresses that it announces |
//! | another host's claim to an address of ours | all loops (g) | the loop that announces the address: it was the first to have it (h). **Limit**: not while that is stuck |
//! | what is no packet, or for no address of ours | the loop that receives it | nobody: it is counted |
//! | what becomes of the link | each loop by its first queue, and the loops that send by it, also those that come later or sent by a loop that has ended (i) | - |
//! | that the device is gone | all loops, whichever hears it (i) | - |
//!
//! | that loop | then |
//! | --- | --- |
//! | has no queue | It gets a queue of a loop that has several. Otherwise loops with a queue bring it what is its own, and it sends by one of them (k). |
//! | does not use the address yet | Other loops answer (f). If none has it, nobody does. |
//! | does not use the address any more | Other loops that listen there have its slots until it has the address again (r). |
//! | is stuck | Its ring takes some 340 frames. More are dropped and counted, and no other loop waits (l). What only it has is not answered until it goes on. **Limit**: neither is what arrives by a queue of its own, which nobody else reads. |
//! | is stuck, and others send by it | They try another loop after 100 ms, until it has taken what it was given (m). **Limit**: without another loop that has a queue they wait. |
//! | is gone, also if its driver has ended and its host is kept (n) | Others read its queues, whoever looks first (q), send without it, have its slots (b) and announce its addresses (h). What was a connection of its own meets a reset. **Limit**: a loop that begins to listen in its place takes those slots with what was opened in them meanwhile, and resets it. |
//! | sends more than there is room for | What has arrived does not wait for it, queues are read between (o), and the loop sleeps until there is room (p). |
//!
//! Tests: (a) `steering::each_port_to_dial_from_has_one_loop`, and while the table changes `tables_that_change`; (b)
//! `steering::an_owner_is_there` and its neighbours; (c) `early`; (d) `flow::an_error_leads_to_the_connection_that_it_is_about`; (e)
//! `what_concerns_no_connection_is_answered`; (f) `a_stuck_loop_leaves_no_question_unanswered`,
//! `steering::a_loop_that_has_an_address_answers`; (g) `flow::questions_for_neighbours_concern_all`; (h)
//! `addresses::one_loop_probes_and_the_others_follow`; (i) `link_news`; (k) `xdp_queues_are_shared_out`, `moved_queues`; (l)
//! `room_and_turns::a_full_ring_drops_and_counts`; (m) `room_and_turns::a_stuck_loop_keeps_nobody_from_sending` and its neighbour; (n)
//! `a_host_without_a_driver_leaves_its_device`, `moved_queues::wake_the_loop_that_has_them`; (o)
//! `room_and_turns::loops_that_send_much_leave_the_queue_its_turn`; (p) `room_and_turns::a_loop_sleeps_while_nothing_can_leave`; (q)
//! `moved_queues::wait_for_no_loop_that_is_stuck`; (r) `steering::slots_at_an_address_that_is_taken_away_go_to_those_that_have_it`.
//!
//! | file | holds |
//! | --- | --- |
//! | `directory` | who uses a device, and what they have told each other |
//! | `steering` | which loop has a connection |
//! | `slots` | which loops share the connections of a service |
//! | `flow`, `flow_hash` | which connection a frame is about, and its place among those of a service |
//! | `early` | SYNs for a loop that has not begun to listen |
//! | `shard` | the device of one loop |
//! | `uplinks` | by whom it sends while it has no queue |
//! | `rings`, `queues` | its rings to other loops, and the queues that it reads |
//! | `peer` | the loop as others see it, who leave it rings and news |
//! | `addresses` | the addresses that the loops share |
//! | `shared_host` | an engine on a shard, with addresses, to dial and to serve |

mod addresses;
mod directory;
mod early;
mod flow;
mod flow_hash;
mod peer;
mod queues;
mod rings;
mod shard;
mod shared_host;
mod slots;
mod steering;
#[cfg(test)]
mod tests;
mod uplinks;

pub use anywire_tcp::{Cidr, Mac};

pub use self::directory::{NoShard, Reservation, ServiceError, Shards};
pub use self::shard::Shard;
pub use self::shared_host::{HostOptions, JoinError, SharedHost, Watch};
