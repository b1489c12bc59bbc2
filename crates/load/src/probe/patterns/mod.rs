//! The patterns of requests, a file each. Each ends by its deadlines, and one that fails leaves the others alone.

mod counted;
mod heads;
mod http2;
mod large;
mod many;
mod pipelined;
mod single;
mod slow_path;
mod tls;
mod tls_versions;

pub(super) use self::counted::count;
pub(super) use self::heads::{compression, expect, head};
pub(super) use self::http2::http2;
pub(super) use self::large::{is_large, large, slow_reader};
pub(super) use self::many::many;
pub(super) use self::pipelined::pipelined;
pub(super) use self::single::single;
pub(super) use self::slow_path::slow_path;
pub(super) use self::tls::tls;
pub(super) use self::tls_versions::tls_versions;
