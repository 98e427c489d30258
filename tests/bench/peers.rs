//! Starts the provider and the proxies, each a process of its own, and reads what they use.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

pub struct Peer {
    pub name: &'static str,
    pub address: SocketAddr,
    process: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A master that is asked to stop takes its workers along.
        let id = self.process.id().to_string();
        let _ = Command::new("kill").arg(id).status();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Peer {
    pub fn provider() -> Peer {
        let port = free_port();
        start("direct", port, me(&["provider", &port.to_string()])).expect("the provider")
    }

    pub fn floor(upstream: SocketAddr) -> Peer {
        let port = free_port();
        start("floor", port, me(&["floor", &port.to_string(), &upstream.to_string()])).expect("the floor")
    }

    pub fn plimsoll(upstream: SocketAddr) -> Peer {
        let port = free_port();
        start("plimsoll", port, serve(Command::new(PLIMSOLL), port, upstream)).expect("the program")
    }

    /// Counts nothing before it is told to (`counts`), and writes `out` when it ends. Nothing where valgrind is not installed.
    pub fn under_callgrind(upstream: SocketAddr, out: &Path) -> Option<Peer> {
        let port = free_port();
        let mut valgrind = Command::new(installed("valgrind")?);
        valgrind.args(["--tool=callgrind", "--instr-atstart=no"]).arg(format!("--callgrind-out-file={}", out.display())).arg(PLIMSOLL);
        start("callgrind", port, serve(valgrind, port, upstream))
    }

    pub fn counts(&self, on: bool) -> Option<()> {
        let told =
            Command::new("callgrind_control").args(["-i", if on { "on" } else { "off" }]).arg(self.process.id().to_string()).output();
        told.ok().filter(|told| told.status.success()).map(drop)
    }

    /// Nothing where nginx is not installed.
    pub fn nginx(upstream: SocketAddr) -> Option<Peer> {
        let (port, folder) = (free_port(), folder("nginx"));
        let file = folder.join("nginx.conf");
        fs::write(&file, include_str!("nginx.conf").replace("PORT", &port.to_string()).replace("UPSTREAM", &upstream.to_string())).ok()?;
        let mut command = Command::new(installed("nginx")?);
        command.arg("-p").arg(&folder).arg("-c").arg(&file).args(["-e", "error.log"]);
        start("nginx", port, command)
    }

    /// Nothing where haproxy is not installed.
    pub fn haproxy(upstream: SocketAddr) -> Option<Peer> {
        let (port, file) = (free_port(), folder("haproxy").join("haproxy.cfg"));
        fs::write(&file, include_str!("haproxy.cfg").replace("PORT", &port.to_string()).replace("UPSTREAM", &upstream.to_string())).ok()?;
        let mut command = Command::new(installed("haproxy")?);
        command.arg("-f").arg(&file).arg("-db");
        start("haproxy", port, command)
    }

    /// Seconds of processor time so far, of the process and its children.
    pub fn cpu(&self) -> f64 {
        const TICKS: f64 = 100.0;
        let ticks = |id: u32| -> Option<u64> {
            let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
            Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
        };
        // Finer than ticks where the kernel keeps it.
        let fine = |id: u32| -> Option<f64> {
            let tasks = fs::read_dir(format!("/proc/{id}/task")).ok()?;
            let of =
                |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).ok()?.split_whitespace().next()?.parse::<u64>().ok();
            Some(tasks.flatten().filter_map(of).sum::<u64>() as f64 / 1e9).filter(|seconds| *seconds > 0.0)
        };
        self.tree().into_iter().map(|id| fine(id).unwrap_or_else(|| ticks(id).unwrap_or(0) as f64 / TICKS)).sum()
    }

    /// KiB of memory that are its own, shared pages by share.
    pub fn memory(&self) -> u64 {
        let of = |id: u32| -> Option<u64> {
            let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
            rollup.lines().find(|line| line.starts_with("Pss:"))?.split_whitespace().nth(1)?.parse().ok()
        };
        self.tree().into_iter().filter_map(of).sum()
    }

    fn tree(&self) -> Vec<u32> {
        let mut tree = vec![self.process.id()];
        let mut at = 0;
        while let Some(id) = tree.get(at).copied() {
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            at += 1;
        }
        tree
    }
}

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// The program itself, or what runs it, with what it is to do.
fn serve(mut command: Command, port: u16, upstream: SocketAddr) -> Command {
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--admin", "off", "--upstream", &format!("http://{upstream}")]);
    // Away from any configuration of this user.
    command.current_dir(folder("plimsoll")).env("XDG_CONFIG_HOME", folder("plimsoll"));
    command
}

fn me(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(arguments);
    command
}

fn start(name: &'static str, port: u16, mut command: Command) -> Option<Peer> {
    let log = fs::File::create(folder(name).join("log")).ok()?;
    let process = command.stdin(Stdio::null()).stdout(log.try_clone().ok()?).stderr(log).spawn().ok()?;
    let peer = Peer { name, address: SocketAddr::from(([127, 0, 0, 1], port)), process };
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(peer.address).is_err() {
        if Instant::now() > until {
            eprintln!("{name} does not listen; see {}", folder(name).join("log").display());
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(peer)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench").join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}
