//! An upstream that records every request, byte for byte, and answers with raw bytes.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    /// Names and values as they were spelt, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Without chunked framing.
    pub body: Vec<u8>,
    /// What stood behind the chunks.
    pub trailers: Vec<String>,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }
}

type Conduct = dyn Fn(usize, Seen, TcpStream) -> Pin<Box<dyn Future<Output = Option<TcpStream>> + Send>> + Send + Sync;

pub struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    changed: Arc<Notify>,
}

impl Upstream {
    /// Answers the nth request (over all connections) with `answers(n)`. Behind an answer that is empty, or no whole head, the connection
    /// is closed.
    pub async fn new(answers: impl Fn(usize, &Seen) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
        Upstream::conduct(move |n, seen, mut stream| {
            let bytes = answers(n, &seen);
            async move {
                let whole = bytes.windows(4).any(|window| window == b"\r\n\r\n");
                if stream.write_all(&bytes).await.is_err() || !whole {
                    return None;
                }
                Some(stream)
            }
        })
        .await
    }

    /// Does as it is told with each request; the connection goes on if it is given back.
    pub async fn conduct<F: Future<Output = Option<TcpStream>> + Send + 'static>(
        conduct: impl Fn(usize, Seen, TcpStream) -> F + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Upstream { address: listener.local_addr().unwrap(), seen: Arc::default(), changed: Arc::default() };
        let (seen, changed) = (upstream.seen.clone(), upstream.changed.clone());
        let conduct: Arc<Conduct> = Arc::new(move |n, seen, stream| Box::pin(conduct(n, seen, stream)));
        tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve(stream, connection, seen.clone(), changed.clone(), conduct.clone()));
                connection += 1;
            }
        });
        upstream
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What arrived so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The only request that arrived.
    pub fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }

    /// Returns when `count` requests have arrived.
    pub async fn arrived(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.seen().len() >= count {
                return;
            }
            changed.await;
        }
    }
}

async fn serve(mut stream: TcpStream, connection: usize, all: Arc<Mutex<Vec<Seen>>>, changed: Arc<Notify>, conduct: Arc<Conduct>) {
    let mut buffer = Vec::new();
    while let Some(seen) = request(&mut stream, &mut buffer, connection).await {
        let n = {
            let mut all = all.lock().unwrap();
            all.push(seen.clone());
            all.len() - 1
        };
        changed.notify_waiters();
        match conduct(n, seen, stream).await {
            Some(back) => stream = back,
            None => return,
        }
    }
}

/// The next request on a connection.
pub async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Seen> {
    let (line, headers) = head(stream, buffer).await?;
    let mut seen = Seen { line, headers, body: Vec::new(), trailers: Vec::new(), connection };
    if seen.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        (seen.body, seen.trailers) = chunked(stream, buffer).await?;
    } else if let Some(length) = seen.header("content-length") {
        seen.body = exactly(stream, buffer, length.parse().unwrap()).await?;
    }
    Some(seen)
}

pub type Headers = Vec<(String, Vec<u8>)>;

/// The first line and the headers of a message.
pub async fn head(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<(String, Headers)> {
    let end = loop {
        match buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(at) => break at,
            None => more(stream, buffer).await?,
        }
    };
    let head: Vec<u8> = buffer.drain(..end + 4).collect();
    let mut lines = head[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = String::from_utf8(lines.next()?.to_vec()).unwrap();
    let headers = lines.map(|line| {
        let colon = line.iter().position(|byte| *byte == b':').unwrap();
        (String::from_utf8(line[..colon].to_vec()).unwrap(), line[colon + 1..].trim_ascii().to_vec())
    });
    Some((line, headers.collect()))
}

/// A chunked body and its trailers.
pub async fn chunked(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<(Vec<u8>, Vec<String>)> {
    let mut body = Vec::new();
    loop {
        let line = self::line(stream, buffer).await?;
        let size = usize::from_str_radix(line.split(';').next()?, 16).ok()?;
        if size == 0 {
            let mut trailers = Vec::new();
            loop {
                match self::line(stream, buffer).await? {
                    end if end.is_empty() => return Some((body, trailers)),
                    trailer => trailers.push(trailer),
                }
            }
        }
        body.extend(exactly(stream, buffer, size).await?);
        line_end(stream, buffer).await?;
    }
}

pub async fn exactly(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>, length: usize) -> Option<Vec<u8>> {
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    Some(buffer.drain(..length).collect())
}

async fn line_end(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<()> {
    exactly(stream, buffer, 2).await.map(drop)
}

async fn line(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<String> {
    let end = loop {
        match buffer.windows(2).position(|window| window == b"\r\n") {
            Some(at) => break at,
            None => more(stream, buffer).await?,
        }
    };
    let line = buffer.drain(..end + 2).take(end).collect();
    String::from_utf8(line).ok()
}

/// Reads once; nothing at the end, or when the connection broke.
pub async fn more(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}
