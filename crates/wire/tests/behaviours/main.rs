//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod again;
#[path = "support/coat.rs"]
mod coat;
#[cfg(feature = "shm")]
#[path = "support/raw_shm.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod raw;
#[path = "../../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;
mod support;

mod a_closed_peer_is_an_end_and_no_reset;
mod a_coat_fits_around_a_wire;
#[cfg(feature = "tls")]
mod a_dropped_tls_stream_has_time_to_leave;
mod a_failed_dial_says_why;
#[cfg(feature = "udp")]
mod a_full_send_buffer_loses_no_datagram;
mod a_name_that_does_not_resolve_is_said;
mod a_panic_costs_one_connection;
mod a_peer_of_another_namespace_has_no_process;
mod a_ready_peer_starves_nobody;
mod abort_is_seen_as_reset;
mod accepting_ends_with_its_loops;
mod accepts_are_spread_evenly;
mod addresses_are_given_as_text;
mod at_the_limit_accepting_pauses;
mod both_ends_know_their_addresses;
mod bytes_arrive_whole_and_in_order;
mod bytes_that_were_read_before_come_first;
#[cfg(feature = "udp")]
mod datagram_addresses_are_given_once;
#[cfg(feature = "udp")]
mod datagrams_of_any_size_arrive_whole;
#[cfg(feature = "udp")]
mod datagrams_that_are_not_joined_wait_for_room;
mod durations_may_be_endless;
mod each_loop_has_a_tcp_socket;
#[cfg(feature = "udp")]
mod each_loop_has_a_udp_socket;
mod half_close_leaves_the_other_direction_open;
#[cfg(feature = "tls")]
mod handshakes_are_limited;
mod idle_connections_wait_without_a_buffer;
mod local_ports_that_run_out_are_said;
#[cfg(feature = "stack")]
mod loops_share_a_device;
mod low_ports_are_the_systems;
mod messages_arrive_whole;
#[cfg(feature = "dns")]
mod name_servers_are_not_trusted;
mod names_are_asked_for_once;
mod names_of_this_machine_need_no_resolver;
mod not_permitted_is_said;
mod one_end_costs_the_others_of_its_wire_nothing;
mod one_of_two_servers_gets_the_address;
#[cfg(feature = "udp")]
mod one_peer_costs_the_others_of_its_socket_nothing;
mod only_allowed_peers_are_served;
mod output_leaves_in_one_write;
#[cfg(all(feature = "shm", feature = "udp"))]
mod passed_descriptors_are_refused;
mod peer_credentials_are_told;
mod peers_that_leave_early_disturb_nobody;
mod port_in_use_is_said;
#[cfg(feature = "shm")]
mod shm_ends_stand_what_others_do;
#[cfg(feature = "shm")]
mod shm_refuses_a_hostile_set_up;
#[cfg(feature = "shm")]
mod shm_stands_hostile_positions;
#[cfg(feature = "shm")]
mod shm_wakes_a_task_that_has_tried_twice;
#[cfg(feature = "shm")]
mod shm_wakes_each_end_each_time;
mod socket_file_goes_with_its_listener;
mod socket_file_has_its_mode_before_anyone_connects;
mod sockets_have_their_options;
mod stale_socket_file_is_replaced_only_if_nobody_answers;
mod stopping_frees_the_address;
mod tcp_sends_small_writes_at_once;
#[cfg(feature = "tls")]
mod tls_certificates_are_chosen_and_replaced;
#[cfg(feature = "tls")]
mod tls_checks_who_the_peer_is;
#[cfg(feature = "tls")]
mod tls_goes_around_a_given_connection;
#[cfg(feature = "tls")]
mod tls_streams_end_or_are_cut;
mod what_was_received_is_read_before_a_reset;
mod what_was_written_before_the_accept_arrives;
mod what_was_written_outlives_its_loop;
mod writing_nothing_is_nothing;
