//! A client that waits: one connection, one request at a time, and the time it takes.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// A request with its head, ready to be written in one piece.
pub fn request(body: &[u8], window: Option<u64>, more: &str) -> Vec<u8> {
    let window = window.map_or(String::new(), |tokens| format!("x-plimsoll-window: {tokens}\r\n"));
    let mut bytes = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer sk-bench\r\n\
         accept: */*\r\n{window}{more}content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A window in which all of a body's tokens are counted, because its bytes alone do not show that it fits, and in which it fits.
pub fn counted(body: &[u8]) -> Option<u64> {
    Some(body.len() as u64 * 3 / 4)
}

pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn new(to: SocketAddr) -> Client {
        let stream = TcpStream::connect(to).expect("a proxy that listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        Client { stream, buffer: Vec::with_capacity(64 << 10) }
    }

    /// Sends and reads the whole answer, which must be a success.
    pub fn send(&mut self, request: &[u8]) -> Duration {
        let started = Instant::now();
        self.stream.write_all(request).expect("a proxy that reads");
        self.buffer.clear();
        let mut piece = [0; 64 << 10];
        while !complete(&self.buffer) {
            let read = self.stream.read(&mut piece).expect("a proxy that answers");
            assert!(read > 0, "the answer broke off: {}", String::from_utf8_lossy(&self.buffer));
            self.buffer.extend_from_slice(&piece[..read]);
        }
        let took = started.elapsed();
        assert!(self.buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&self.buffer));
        took
    }

    /// The value of a header of the last answer.
    pub fn header(&self, name: &str) -> Option<String> {
        let head = String::from_utf8_lossy(&self.buffer);
        head.lines().take_while(|line| !line.is_empty()).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

fn complete(answer: &[u8]) -> bool {
    let Some(end) = memchr::memmem::find(answer, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    match head.split("\r\n").find_map(|line| line.strip_prefix("content-length:")) {
        Some(length) => answer.len() >= end + 4 + length.trim().parse::<usize>().unwrap_or(0),
        None => answer.ends_with(b"0\r\n\r\n"),
    }
}
