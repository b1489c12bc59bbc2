//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

#[path = "../../../wire/tests/behaviours/again/mod.rs"]
mod again;
mod common;
#[path = "common/figures.rs"]
mod figures;
#[path = "common/nginx.rs"]
mod nginx;
#[path = "common/peer.rs"]
mod peer;
#[path = "common/pki.rs"]
mod pki;
#[path = "../../../loops/tests/behaviours/common/random.rs"]
mod random;
#[path = "common/recorder.rs"]
mod recorder;
#[path = "common/secured.rs"]
mod secured;
#[path = "../../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;
mod tls_peers;
#[path = "common/tools.rs"]
mod tools;

mod a_download_goes_on_where_it_ended;
mod a_file_that_shrinks_is_named;
mod a_load_names_the_host_of_its_url;
mod a_search_says_what_it_found;
mod a_system_without_af_xdp_is_named;
mod a_terminal_gets_what_a_person_reads;
mod ab_and_diff_say_which_is_slower;
mod an_address_in_use_is_no_start;
mod an_answer_that_fails_says_how;
mod calls_go_by_rules;
mod calls_go_on_elsewhere_and_again;
mod calls_go_through_proxies;
mod calls_send_what_curl_sends;
mod compare_writes_table_json_and_html;
mod completions_and_man_are_made;
mod cookies_are_kept_in_a_file;
mod data_end_at_their_limits;
mod errors_say_what_would_help;
mod figures_add_up;
mod files_have_dates_and_conditions;
mod get_and_post_are_like_curl;
mod help_and_readme_name_every_wire;
mod help_of_a_call_fits_a_screen;
mod http2_passes_h2spec;
mod http2_serves_other_clients;
mod https_calls_other_servers;
mod ipc_measures_each_way;
mod ladder_climbs_from_threads_to_io_uring;
mod limits_on_heads_are_options;
mod load_measures_nginx;
mod load_says_how_it_went;
mod load_sends_what_files_say;
mod load_sends_what_openapi_describes;
mod loads_are_exported;
mod local_ports_that_run_out_are_said;
mod namespaces;
mod openssl_meets_our_tls;
mod operators_look_into_a_service;
mod pages_fit_every_window;
mod pipe_matches_answers_in_order;
mod probe_is_silent_on_sound_servers;
mod probe_says_why_a_service_is_slow;
mod serve_answers_curl_on_every_wire;
mod serve_dir_never_leaves_it;
mod serve_logs_requests;
mod serve_speaks_tls;
mod serve_stands_wrk;
mod servers_are_compared_at_a_fixed_rate;
mod services_on_the_stack_end_in_peace;
mod several_machines_load_together;
mod several_urls_are_called_in_order;
mod signals_end_what_runs;
mod swarm_verifies_every_byte;
mod the_guide_on_comparing_runs_works;
mod the_lab_has_what_is_below_services;
mod the_screen_changes_no_figure;
mod the_screen_gives_the_terminal_back;
mod the_stack_meets_the_kernel;
mod thresholds_decide_the_exit_code;
mod tls_and_clear_text_share_a_port;
mod udp_accounts_on_both_ends;
mod what_has_come_is_printed;
mod what_is_known_of_a_call_is_written_out;
mod what_was_typed_is_taken_as_it_was_meant;
mod zones_name_the_interface;
