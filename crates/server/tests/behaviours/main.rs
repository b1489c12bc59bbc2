//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

#[cfg(feature = "udp")]
#[path = "../../../wire/tests/behaviours/again/mod.rs"]
mod again;
#[cfg(feature = "udp")]
#[path = "../../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;
mod support;

mod a_blocked_loop_costs_no_other_request_its_time;
mod a_close_is_said_before_it_comes;
mod a_cut_tls_stream_is_no_end;
mod a_destructor_that_panics_costs_its_own_request;
mod a_failing_stream_leaves_its_neighbours_whole;
mod a_half_closed_peer_is_answered;
mod a_head_may_state_a_length;
mod a_late_refusal_has_its_own_date;
mod a_panic_in_a_layer_costs_its_own_request;
mod a_panic_is_500_and_the_connection_stays;
mod a_reader_elsewhere_may_take_its_time;
mod a_request_is_taken_apart_and_put_together;
mod a_reset_under_way_is_counted;
mod a_router_answers_without_a_server;
mod a_router_is_a_service_of_tower;
mod a_server_runs_within_another_runtime;
mod an_idle_connection_ends_in_order;
mod an_upgrade_hands_over_the_connection;
mod answers_keep_the_order_of_requests;
mod answers_that_nobody_takes_hold_handlers_back;
mod bad_requests_are_refused;
mod bodies_are_collected_up_to_their_limit;
mod bodies_stream_with_back_pressure;
mod certificates_are_replaced_under_way;
mod clear_text_meets_a_port_with_tls;
mod connections_are_limited;
mod continue_goes_before_the_answer;
mod datagrams_are_answered;
mod durations_may_be_endless;
mod each_deadline_fires_for_its_own_phase;
mod each_exchange_ends_once;
mod each_request_has_its_own_time;
mod each_stream_has_its_own_deadlines;
mod equivalent_paths_reach_one_route;
mod errors_become_responses;
mod every_wire_serves_alike;
mod finished_answers_leave_before_a_bad_body_ends_them;
mod forged_datagrams_are_not_answered;
mod head_and_body_leave_in_one_write;
mod http2_abuse_costs_only_its_connection;
mod http2_drains_in_two_steps;
mod http2_ends_need_no_window;
mod http2_serves_as_http1_does;
mod http2_streams_leave_http;
mod http2_windows_are_shared;
mod layers_apply_in_their_order;
mod layers_ask_who_it_is;
mod layers_change_fields;
mod layers_let_pages_call;
mod layers_limit_requests;
mod layers_name_requests;
mod layers_of_a_loop_are_made_once;
mod layers_replace_what_goes_through_them;
mod layers_word_errors;
mod mistakes_of_layers_stop_the_start;
mod mistakes_of_routes_stop_the_start;
mod odd_targets_find_their_answer;
mod refusals_are_worded_in_one_place;
mod routers_compose;
mod routes_answer_by_method;
mod routes_have_limits_of_their_own;
mod services_of_tower_answer;
mod shutdown_is_a_deadline;
mod streams_do_not_harm_each_other;
mod the_end_follows_the_last_answer;
mod timeouts_are_late_by_a_hundredth_at_most;
mod tls_tells_what_was_agreed_on;
mod what_is_there_and_wrong_is_refused;
