//! One program for the tests of this crate, one module a behaviour: a file is named after what it shows.

mod another_parser_reads_the_same;
