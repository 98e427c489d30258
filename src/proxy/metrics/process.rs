//! What the system says of this process. Where it says nothing, as outside of Linux, the numbers are 0.

use std::fs;

#[derive(Default)]
pub struct Process {
    /// Seconds.
    pub cpu: f64,
    /// Bytes.
    pub memory: i64,
    pub open_fds: i64,
    pub max_fds: i64,
}

impl Process {
    pub fn now() -> Process {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Process {
            cpu: cpu().unwrap_or(0.0),
            memory: resident().unwrap_or(0),
            open_fds: fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as i64),
            max_fds: most.and_then(|most| most.try_into().ok()).unwrap_or(0),
        }
    }
}

/// In ticks of a hundredth of a second, which Linux promises to user space.
fn cpu() -> Option<f64> {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold anything, and stands in parentheses; user and system time are the 12th and 13th field behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}

fn resident() -> Option<i64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * i64::try_from(rustix::param::page_size()).ok()?)
}
