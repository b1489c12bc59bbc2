//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod support;

mod a_body_holds_back_its_sender;
mod a_cause_stands_once;
mod any_split_gives_the_same_events;
mod connection_options_go_with_their_fields;
mod folds_in_answers_are_spaces;
mod foreign_bodies_keep_length_and_trailers;
mod forms_with_files_are_read_in_any_cut;
mod h2_abuse_ends_the_connection;
mod h2_bounds_hold_on_both_sides;
mod h2_durations_may_be_endless;
mod h2_ends_without_loss;
mod h2_faults_are_named;
mod h2_faults_end_what_they_touch;
mod h2_heads_fit_what_the_peer_takes;
mod h2_secrets_stay_out_of_tables;
mod h2_streams_share_a_connection;
mod h2_tables_stay_in_step;
mod h2_windows_open_again;
mod h2_writes_what_peers_accept;
mod heads_are_filled_field_by_field;
mod heads_are_looked_at_in_place;
mod later_versions_are_read_as_1_1;
mod limits_are_reached_with_an_error;
mod limits_of_heads_hold_in_each_version;
mod messages_end_where_the_rfc_says;
mod messages_survive_the_round_trip;
mod plain_heads_are_read_as_all_are;
mod plain_responses_are_read_as_all_are;
mod reasons_need_not_be_text;
mod repeated_heads_are_not_parsed_again;
mod signatures_are_those_of_the_rfc;
mod smuggling;
mod targets_name_a_host;
mod the_best_of_what_a_peer_accepts_is_chosen;
