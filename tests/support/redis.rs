//! A Redis or Valkey of one's own.

use std::{
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use super::secure::Identity;

pub struct Redis {
    child: Child,
    pub address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// Nothing, said aloud, where neither is installed.
    pub fn start() -> Option<Redis> {
        Redis::at(super::nobody())
    }

    /// The same, that speaks TLS alone, with this identity.
    pub fn secure(identity: &Identity) -> Option<Redis> {
        let address = super::nobody();
        let [certificate, key] = [&identity.certificate, &identity.key].map(|file| file.to_str().unwrap());
        let port = address.port().to_string();
        Redis::with(
            address,
            &[
                "--port",
                "0",
                "--tls-port",
                &port,
                "--tls-cert-file",
                certificate,
                "--tls-key-file",
                key,
                "--tls-ca-cert-file",
                certificate,
                "--tls-auth-clients",
                "no",
            ],
        )
    }

    /// Starts it, and waits until it takes connections.
    pub fn at(address: SocketAddr) -> Option<Redis> {
        Redis::with(address, &["--port", &address.port().to_string()])
    }

    fn with(address: SocketAddr, arguments: &[&str]) -> Option<Redis> {
        let folder = tempfile::tempdir().unwrap();
        for program in ["redis-server", "valkey-server"] {
            let mut command = Command::new(program);
            command.args(arguments).args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
            command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(child) = command.spawn() else { continue };
            let mut redis = Redis { child, address, _folder: folder };
            while TcpStream::connect(address).is_err() {
                assert!(redis.child.try_wait().unwrap().is_none(), "{program} ended");
                std::thread::yield_now();
            }
            return Some(redis);
        }
        eprintln!("skipped: neither redis-server nor valkey-server is installed");
        None
    }

    pub fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// Stops it in its tracks: connections stand, and nothing answers.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
