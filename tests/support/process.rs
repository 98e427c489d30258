//! The program as a process.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

pub struct Process {
    pub child: Child,
    pub address: SocketAddr,
    pub admin: SocketAddr,
}

impl Process {
    /// Serves what `file` says, and has said where.
    #[expect(clippy::zombie_processes, reason = "a test that fails while it starts ends anyway, and dropping it waits for the rest")]
    pub fn serve(file: &Path) -> Process {
        // Who measures names a program that was built for speed.
        let program = std::env::var_os("PLIMSOLL_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_plimsoll").into());
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(file).env_clear().current_dir(std::env::temp_dir());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        loop {
            let mut line = String::new();
            assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it listened");
            let said: serde_json::Value = serde_json::from_str(&line).unwrap();
            if said["message"] == "listening" {
                let address = |name: &str| said[name].as_str().unwrap().parse().unwrap();
                let (address, admin) = (address("address"), address("admin"));
                // A log that nobody reads would stop the process when the pipe is full.
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return Process { child, address, admin };
            }
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
