//! How much memory this process holds, as the kernel counts it.
//!
//! The figures come from `/proc/self/smaps_rollup`, which walks the page tables and is exact. `/proc/self/status`
//! is the fall-back on kernels before 4.14; it lags by up to 64 pages for each thread.

use std::fs;
use std::io;

/// Bytes of physical memory mapped into this process, shared file pages included.
///
/// # Errors
///
/// What reading `/proc` said, or `InvalidData` if neither file holds the figure.
pub fn resident_bytes() -> io::Result<u64> {
    figure("Rss:", "VmRSS:")
}

/// Bytes of physical memory that only this process pays for: heap, stacks, private mappings.
///
/// The figure for "memory a connection": code and libraries, which are file pages, are not in it.
///
/// # Errors
///
/// What reading `/proc` said, or `InvalidData` if neither file holds the figure.
pub fn anonymous_bytes() -> io::Result<u64> {
    figure("Anonymous:", "RssAnon:")
}

fn figure(in_rollup: &str, in_status: &str) -> io::Result<u64> {
    if let Ok(text) = fs::read_to_string("/proc/self/smaps_rollup")
        && let Some(bytes) = kilobyte_line(&text, in_rollup)
    {
        return Ok(bytes);
    }
    let text = fs::read_to_string("/proc/self/status")?;
    kilobyte_line(&text, in_status).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "cannot read the memory of this process: no line {in_rollup} in /proc/self/smaps_rollup and no \
                 line {in_status} in /proc/self/status; a kernel of 4.5 or later with /proc mounted is needed"
            ),
        )
    })
}

/// The bytes in a line `LABEL  123 kB`.
fn kilobyte_line(text: &str, label: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "55e-7ff ---p 00000000 00:00 0    [rollup]\nRss:                1892 kB\nPss:  900 kB\n\
                          AnonHugePages:  0 kB\nAnonymous:           124 kB\n";

    #[test]
    fn a_line_is_found_by_its_whole_label() {
        assert_eq!(kilobyte_line(ROLLUP, "Rss:"), Some(1892 * 1024));
        assert_eq!(kilobyte_line(ROLLUP, "Anonymous:"), Some(124 * 1024));
        assert_eq!(kilobyte_line(ROLLUP, "Anon:"), None);
        assert_eq!(kilobyte_line("Rss: many kB", "Rss:"), None);
        assert_eq!(kilobyte_line("Rss: 18446744073709551615 kB", "Rss:"), None);
    }
}
