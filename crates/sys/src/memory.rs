//! How much memory this process holds by the kernel's count, how much the kernel holds for it, and how much more it may
//! take.
//!
//! The memory it holds comes from `/proc/self/smaps_rollup`, which walks the page tables and is exact. `/proc/self/status`
//! is the fall-back on kernels before 4.14 and lags by up to 64 pages for each thread. Pages from the pool of huge pages
//! (`MAP_HUGETLB`), which the kernel counts separately, are included.
//!
//! The memory it may take comes from `/proc/meminfo` and from the limits of its control group, version 1 or 2, if these
//! are mounted at their usual places under `/sys/fs/cgroup`.

use std::fs;
use std::io;
use std::path::Path;

use anywire_advice::Message;

/// Bytes of physical memory mapped into this process, shared file pages included.
///
/// # Errors
///
/// What reading `/proc` said, or `InvalidData` if neither file holds the figure.
pub fn resident_bytes() -> io::Result<u64> {
    Ok(figure("Rss:", "VmRSS:")? + pool_bytes())
}

/// Bytes of physical memory that only this process pays for: heap, stacks, private mappings.
///
/// The figure for "memory a connection": code and libraries, which are file pages, are not in it.
///
/// # Errors
///
/// What reading `/proc` said, or `InvalidData` if neither file holds the figure.
pub fn anonymous_bytes() -> io::Result<u64> {
    Ok(figure("Anonymous:", "RssAnon:")? + pool_bytes())
}

/// Bytes that the kernel holds for itself, on behalf of all processes: its slabs (sockets, files, small buffers), the
/// kernel stacks of threads, and page tables.
///
/// The growth of this figure while connections are opened is the kernel's memory for them, as long as nothing else on the
/// machine opens or closes much.
///
/// # Errors
///
/// What reading `/proc/meminfo` said, or `InvalidData` if it does not hold these lines.
pub fn kernel_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    kernel_bytes_in(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            Message::new(
                "cannot read the memory of the kernel: /proc/meminfo lacks one of the lines Slab:, KernelStack: and PageTables:",
            )
            .with_help("use a kernel of 2.6.31 or later"),
        )
    })
}

fn kernel_bytes_in(meminfo: &str) -> Option<u64> {
    ["Slab:", "KernelStack:", "PageTables:"].into_iter().map(|label| kilobyte_line(meminfo, label)).sum()
}

/// Returns the allocator's free memory to the system: [`anonymous_bytes`] then counts only memory in use. It walks the
/// whole heap, so a thread that serves requests must not call it. Nothing happens with an allocator other than glibc's.
#[cfg_attr(target_env = "gnu", allow(unsafe_code))]
pub fn release_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and locks each arena of the allocator itself.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Bytes that the allocator has handed out and not got back, in all of its heaps; `None` with an allocator other than glibc's.
///
/// Unlike [`anonymous_bytes`] it sees growth within memory that the process has held before. Stacks of threads and other
/// mappings of a program's own are not in it.
#[cfg_attr(target_env = "gnu", allow(unsafe_code))]
pub fn allocated_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        let (mut text, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: the stream writes the address and the length of its text to the two variables, at the latest when it is
        // closed, and they outlive it. From then on the text is ours, that many bytes long, until it is freed; it is copied
        // before.
        let report = unsafe {
            let stream = libc::open_memstream(&raw mut text, &raw mut length);
            if stream.is_null() {
                return None;
            }
            let written = libc::malloc_info(0, stream);
            let closed = libc::fclose(stream);
            let bytes = (written == 0 && closed == 0 && !text.is_null())
                .then(|| std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec());
            libc::free(text.cast());
            bytes
        };
        allocated_in(&String::from_utf8(report?).ok()?)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// From the report of `malloc_info(3)`: its last lines are the sums over all heaps.
#[cfg(target_env = "gnu")]
fn allocated_in(report: &str) -> Option<u64> {
    let size = |element: &str| -> Option<u64> {
        let line = report.lines().rev().find(|line| line.trim_start().starts_with(element))?;
        line.split_once("size=\"")?.1.split_once('"')?.0.parse().ok()
    };
    let free = size("<total type=\"fast\"")? + size("<total type=\"rest\"")?;
    Some((size("<system type=\"current\"")? + size("<total type=\"mmap\"")?).saturating_sub(free))
}

/// Bytes of this process's memory that lie in huge pages, transparent ones and those from the pool.
///
/// # Errors
///
/// What reading `/proc` said, or `InvalidData` if the kernel does not say (before 4.14, or built without huge pages).
pub fn huge_page_bytes() -> io::Result<u64> {
    let transparent = fs::read_to_string("/proc/self/smaps_rollup")
        .ok()
        .and_then(|text| kilobyte_line(&text, "AnonHugePages:"))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                Message::new(
                    "cannot read how much memory lies in huge pages: no line AnonHugePages: in /proc/self/smaps_rollup",
                )
                .with_help("use a kernel of 4.14 or later with /proc mounted"),
            )
        })?;
    Ok(transparent + pool_bytes())
}

/// Bytes that this process can take before the system, or the control group it runs in, is out of memory.
///
/// An estimate, and true only for now: other processes take from the same. Memory in caches that the kernel can empty
/// counts as available; swap does not.
///
/// # Errors
///
/// What reading `/proc/meminfo` said, or `InvalidData` if it does not hold the figure (kernels before 3.14).
pub fn available_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let of_system = kilobyte_line(&text, "MemAvailable:").ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            Message::new("cannot read how much memory is available: no line MemAvailable: in /proc/meminfo")
                .with_help("use a kernel of 3.14 or later"),
        )
    })?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Ok(group_available_bytes(Path::new("/sys/fs/cgroup"), &groups)
        .map_or(of_system, |bytes| bytes.min(of_system)))
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
            Message::new(format!(
                "cannot read the memory of this process: no line {in_rollup} in /proc/self/smaps_rollup and no \
                 line {in_status} in /proc/self/status"
            ))
            .with_help("use a kernel of 4.5 or later with /proc mounted"),
        )
    })
}

/// Bytes from the pool of huge pages; none where the kernel knows no such pool.
fn pool_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobyte_line(&text, "HugetlbPages:").unwrap_or(0)
}

/// What the tightest of the control groups leaves: the process's own, and all above it. `groups` is the text of
/// `/proc/self/cgroup`. `None` if no group has a limit.
fn group_available_bytes(root: &Path, groups: &str) -> Option<u64> {
    let of_line = |line: &str| {
        // `NUMBER:CONTROLLERS:PATH`; version 2 has number 0 and names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let (mount, files) = if controllers.is_empty() {
            (root.to_owned(), &VERSION_2)
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (root.join("memory"), &VERSION_1)
        } else {
            return None;
        };
        // In a container the path may be the host's, and only its end, or no part of it, is mounted here. The mount itself
        // is then the container's group, and the last of these ancestors.
        mount
            .join(path)
            .ancestors()
            .take_while(|folder| folder.starts_with(&mount))
            .filter_map(|folder| files.available_bytes(folder))
            .min()
    };
    groups.lines().filter_map(of_line).min()
}

/// How a version of control groups names its files.
struct GroupFiles {
    limit: &'static str,
    usage: &'static str,
    /// A line of `memory.stat`: file pages not used of late, which the kernel drops before it refuses memory.
    reclaimable: &'static str,
}

impl GroupFiles {
    /// What the limit of one group leaves; `None` if it has none ("max"), or no such file.
    fn available_bytes(&self, folder: &Path) -> Option<u64> {
        let read = |file: &str| fs::read_to_string(folder.join(file));
        let number = |file: &str| read(file).ok()?.trim().parse::<u64>().ok();
        let limit = number(self.limit)?;
        let reclaimable = read("memory.stat").ok().and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix(self.reclaimable)?.trim().parse::<u64>().ok())
        });
        let used = number(self.usage)?.saturating_sub(reclaimable.unwrap_or(0));
        Some(limit.saturating_sub(used))
    }
}

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};

const VERSION_2: GroupFiles =
    GroupFiles { limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file " };

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

    #[test]
    fn memory_is_available_here() {
        let available = available_bytes().expect("/proc is mounted");
        assert!(available > 1 << 20, "{available}");
    }

    #[test]
    fn the_kernels_parts_are_summed_or_nothing() {
        let text = "Slab: 10 kB\nKernelStack: 20 kB\nPageTables: 30 kB\n";
        assert_eq!(kernel_bytes_in(text), Some(60 * 1024));
        assert_eq!(kernel_bytes_in("Slab: 10 kB\n"), None);
        assert!(kernel_bytes().expect("/proc is mounted") > 0);
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_handed_out_is_counted_wherever_it_lies() {
        let before = allocated_bytes().expect("glibc reports it");
        // Other tests allocate and free meanwhile, but no such amounts.
        let blocks: Vec<Vec<u8>> = (0..5_000).map(|_| vec![1; 8 << 10]).collect();
        let held = allocated_bytes().expect("as before");
        assert!(held > before + (20 << 20), "{before} bytes, then {held}");
        drop(blocks);
        let left = allocated_bytes().expect("as before");
        assert!(left + (20 << 20) < held, "{held} bytes, then {left}");
    }

    #[test]
    fn memory_that_is_free_goes_back() {
        // Large enough to lie in the heap's pages, small enough not to be mapped on its own.
        let blocks: Vec<Vec<u8>> = (0..2_000).map(|_| vec![1; 8 << 10]).collect();
        let held = anonymous_bytes().expect("/proc is mounted");
        drop(blocks);
        release_free();
        let left = anonymous_bytes().expect("/proc is mounted");
        assert!(!cfg!(target_env = "gnu") || left + (8 << 20) < held, "{held} bytes, then {left}");
    }

    #[test]
    fn the_tightest_group_decides() {
        let root = std::env::temp_dir().join(format!("anywire-sys-groups-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("below the root")).expect("the temporary folder is ours");
            fs::write(file, text).expect("the temporary folder is ours");
        };
        let available = |groups: &str| group_available_bytes(&root, groups);

        // Version 2, with a limit only above the process's own group.
        assert_eq!(available("0::/a/b\n"), None);
        write("a/b/memory.max", "max\n");
        write("a/b/memory.current", "10\n");
        assert_eq!(available("0::/a/b\n"), None);
        write("a/memory.max", "1000\n");
        write("a/memory.current", "600\n");
        assert_eq!(available("0::/a/b\n"), Some(400));
        write("a/memory.stat", "anon 300\ninactive_file 100\nactive_file 200\n");
        assert_eq!(available("0::/a/b\n"), Some(500));
        write("a/memory.max", "300\n");
        assert_eq!(available("0::/a/b\n"), Some(0));
        assert_eq!(available("0::/elsewhere\n"), None);

        // Version 1, in a container that sees its own group as the mount.
        write("memory/memory.limit_in_bytes", "5000\n");
        write("memory/memory.usage_in_bytes", "2000\n");
        write("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
        assert_eq!(available("7:cpu:/docker/x\n5:hugetlb,memory:/docker/x\n0::/\n"), Some(3050));
        assert_eq!(available("5:memory:/docker/x\n0::/a/b\n"), Some(0));
        assert_eq!(available("nonsense\n:\n::\n5:memory\n"), None);
        fs::remove_dir_all(&root).expect("the temporary folder is ours");
    }
}
