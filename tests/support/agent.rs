//! An agent on a raw socket.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use super::upstream::{Headers, chunked, exactly, head, more};

pub struct Agent<S = TcpStream> {
    pub stream: S,
    pub buffer: Vec<u8>,
}

/// An answer as it arrived.
#[derive(Debug)]
pub struct Got {
    pub line: String,
    pub headers: Headers,
    /// Without chunked framing.
    pub body: Vec<u8>,
    pub trailers: Vec<String>,
    /// The connection ended before the body did.
    pub broken: bool,
}

impl Got {
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Sends a whole request on a connection of its own.
pub async fn ask(proxy: SocketAddr, request: impl AsRef<[u8]>) -> Got {
    let mut agent = Agent::connect(proxy).await;
    agent.send(request).await;
    agent.answer().await
}

impl Agent {
    pub async fn connect(proxy: SocketAddr) -> Agent {
        let stream = TcpStream::connect(proxy).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Agent::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Agent<S> {
    pub fn over(stream: S) -> Self {
        Agent { stream, buffer: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub async fn head(&mut self) -> Option<(String, Headers)> {
        head(&mut self.stream, &mut self.buffer).await
    }

    /// An answer to anything but HEAD.
    pub async fn answer(&mut self) -> Got {
        let (line, headers) = self.head().await.expect("no answer");
        let mut got = Got { line, headers, body: Vec::new(), trailers: Vec::new(), broken: false };
        if matches!(got.status(), 101 | 204 | 304) {
            return got;
        }
        if got.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            // What came before a break is wanted too.
            loop {
                let mut copy = self.buffer.as_slice();
                if let Some((body, trailers)) = chunked(&mut copy, &mut Vec::new()).await {
                    let rest = copy.len();
                    self.buffer.drain(..self.buffer.len() - rest);
                    (got.body, got.trailers) = (body, trailers);
                    return got;
                }
                if more(&mut self.stream, &mut self.buffer).await.is_none() {
                    got.body = std::mem::take(&mut self.buffer);
                    got.broken = true;
                    return got;
                }
            }
        }
        match got.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => match exactly(&mut self.stream, &mut self.buffer, length).await {
                Some(body) => got.body = body,
                None => {
                    got.body = std::mem::take(&mut self.buffer);
                    got.broken = true;
                }
            },
            None => {
                while more(&mut self.stream, &mut self.buffer).await.is_some() {}
                got.body = std::mem::take(&mut self.buffer);
            }
        }
        got
    }

    /// Reads until these bytes have come.
    pub async fn until(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        while !self.buffer.windows(bytes.len()).any(|window| window == bytes) {
            assert!(more(&mut self.stream, &mut self.buffer).await.is_some(), "ended before {:?}", String::from_utf8_lossy(bytes));
        }
    }

    /// Whether the connection ends here.
    pub async fn ends(&mut self) -> bool {
        self.buffer.is_empty() && more(&mut self.stream, &mut self.buffer).await.is_none()
    }
}
