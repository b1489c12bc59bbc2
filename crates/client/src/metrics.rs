//! What a client counts and measures: for each loop, each origin and each address, and as the text of Prometheus.

pub(crate) mod address_counters;
pub(crate) mod counters;
pub(crate) mod latencies;
pub(crate) mod origin_counters;
pub(crate) mod prometheus;
