//! User-space TCP on a device: the switch, the driver, streams, and a swarm of tasks.

pub mod capture;
pub mod device;
pub mod impair;
pub mod mesh;
pub mod stream;
pub mod swarm;
pub mod switch;
