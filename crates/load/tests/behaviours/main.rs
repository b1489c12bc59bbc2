//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod support;

// Where the modules that tests of several crates share look for it.
use support::skipped;

mod a_busy_generator_is_said;
mod a_load_in_rounds_is_its_middle_round;
mod a_rate_is_that_of_the_requests_it_counts;
mod a_recording_of_any_size_is_read_as_a_stream;
mod a_run_can_be_stopped;
mod a_run_that_ends_early_says_so;
mod a_schedule_is_kept_whatever_the_server_does;
mod a_script_sends_what_it_says;
mod a_search_finds_what_a_server_bears;
mod a_user_keeps_its_cookies;
mod ab_finds_five_percent_on_this_machine;
mod ab_lets_both_sides_take_turns;
mod answers_are_checked_as_they_come;
mod answers_of_every_framing_are_parsed;
mod bytes_that_the_wire_refused_are_not_sent;
mod compare_measures_in_rounds;
mod connections_spread_over_addresses;
mod counts_match_exactly;
#[cfg(feature = "udp")]
mod datagrams_of_several_machines_are_one_load;
mod depth_is_never_exceeded;
mod diff_compares_stored_results;
mod each_fault_is_counted_under_its_kind;
mod events_of_streams_are_timed;
mod every_field_of_a_result_is_documented;
mod http2_counts_match_exactly;
mod http2_faults_are_counted_under_their_kinds;
mod intervals_add_up_to_the_outcome;
mod latencies_say_from_when_they_count;
mod limits_hold;
mod nothing_holds_up_the_end;
mod outcomes_are_exported;
mod probe_ends_by_its_deadlines;
#[cfg(feature = "tls")]
mod probe_judges_certificates;
mod probe_measures_http2_as_well;
mod probe_names_each_fault_and_no_other;
mod probe_sees_losses_on_the_way;
mod probe_watches_a_process;
#[cfg(feature = "udp")]
mod report_draws_what_the_text_says;
mod report_fits_every_window;
mod report_needs_no_network;
mod report_opens_in_chromium;
mod report_prints_on_paper;
mod sequences_carry_values_on;
mod servers_are_compared_at_a_fixed_rate;
mod several_machines_are_one_load;
mod snapshots_add_up_to_the_outcome;
mod thresholds_judge_an_outcome;
#[cfg(feature = "udp")]
mod udp_accounts_for_each_datagram;
#[cfg(feature = "udp")]
mod udp_leaves_by_a_schedule;
#[cfg(feature = "udp")]
mod udp_tells_what_it_does_not_know;
mod verdicts_are_right_in_forty_runs;
mod warm_up_is_in_no_figure;
mod what_a_peer_announced_not_to_act_on_is_sent_again;
mod what_a_response_took_is_told;
