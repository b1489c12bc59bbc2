//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod skipped;

mod cpu_time_grows_with_work;
mod one_write_is_one_data_segment;
mod pinning_moves_the_thread;
mod syscalls_are_counted_by_name;
mod syscalls_of_a_thread_are_counted;
