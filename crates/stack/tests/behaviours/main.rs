//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

#[path = "../../../wire/tests/behaviours/again/mod.rs"]
mod again;
mod hosts;
mod kernel;
mod links;
#[path = "../../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;
mod support;
mod swarms;

mod a_device_with_little_room_is_used;
mod a_full_queue_drops_and_counts;
mod a_mesh_joins_cores;
mod a_storm_of_addresses_is_bounded;
mod addresses_are_probed_and_defended;
mod captures_open_in_tshark;
mod floods_of_neighbours_cost_bounded_memory;
mod frames_reach_only_their_port;
mod frames_without_room_leave_first;
mod icmp_is_answered_within_a_limit;
mod impairments_follow_their_seed;
mod neighbours_are_resolved_on_a_link;
mod streams_carry_every_byte;
mod streams_end_as_sockets_do;
mod streams_find_their_neighbours;
mod streams_have_options;
mod super_frames_are_impaired_by_segment;
mod swarm_connections_are_their_own;
mod swarm_deadlines_move;
mod swarm_drains_by_a_deadline;
mod swarm_events_come_first;
mod swarm_fills_large_packets;
mod swarm_is_a_push_gateway;
mod swarm_messages_come_in_pieces;
mod swarm_notices_idle_peers;
mod swarm_rests_on_a_device;
mod swarm_shares_the_room_to_send;
mod swarm_sleeps_while_idle;
mod swarm_starves_no_task;
mod swarm_survives_its_tasks;
mod swarm_tasks_are_small;
mod swarm_tasks_connect_out;
mod swarm_tasks_get_mail;
mod swarm_tasks_have_one_place_to_send;
mod tap_carries_every_byte;
mod tap_ends_as_sockets_do;
mod tap_says_why_it_cannot_be_opened;
mod tap_tells_of_its_link;
mod whole_batches_are_handed_over;
