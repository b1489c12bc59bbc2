//! Memory: how much there is, and who gets it.
//!
//! | file | holds |
//! | --- | --- |
//! | `usage` | what the engine has taken, by purpose |
//! | `reclaim` | who loses memory when others find none |
//! | `waiting` | who is told once there is some |

pub(super) mod reclaim;
pub(super) mod usage;
pub(super) mod waiting;
