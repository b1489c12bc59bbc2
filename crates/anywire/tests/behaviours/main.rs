//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

#[path = "../../../sys/tests/behaviours/skipped/mod.rs"]
mod skipped;
mod support;
#[path = "../../../cli/tests/behaviours/common/tools.rs"]
mod tools;

mod a_failed_call_of_a_handler_is_a_gateways_error;
mod a_proxy_keeps_the_length_of_head;
#[cfg(all(feature = "tls", feature = "server", feature = "client"))]
mod a_refused_certificate_is_said_by_either_version;
mod a_request_is_changed_before_it_is_forwarded;
mod a_shutdown_loses_no_call;
mod a_test_that_hangs_says_so;
mod a_torn_body_is_no_whole_one;
mod an_answer_that_comes_late_is_a_timeout;
mod an_upgrade_goes_through_a_proxy;
mod an_upgrade_joins_client_and_server;
mod embedded_in_another_runtime;
mod grpc_works;
mod http2_carries_what_http1_does;
mod interim_responses_are_no_answers;
mod own_wire_serves_http;
mod time_moves_as_a_test_says;
mod timeouts_of_calls_are_late_by_a_hundredth_at_most;
