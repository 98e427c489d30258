//! Many streams at once: how long their chunks are under way.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The monotonic clock, which is one for all processes of a machine.
pub fn nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Streams `request` on `connections` connections at once; the delays of all chunks, in nanoseconds.
pub fn delays(to: SocketAddr, request: &[u8], connections: usize) -> Vec<u64> {
    let request: Arc<[u8]> = request.into();
    runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(connect(to).await);
        }
        let reading: Vec<_> = open.into_iter().map(|stream| tokio::spawn(read(stream, request.clone()))).collect();
        let mut delays = Vec::new();
        for one in reading {
            delays.extend(one.await.expect("a stream that ends"));
        }
        delays
    })
}

async fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).await.expect("a proxy that listens");
    stream.set_nodelay(true).expect("a socket");
    stream
}

async fn read(mut stream: TcpStream, request: Arc<[u8]>) -> Vec<u64> {
    stream.write_all(&request).await.expect("a proxy that reads");
    let (mut delays, mut rest) = (Vec::new(), Vec::with_capacity(64 << 10));
    loop {
        let read = stream.read_buf(&mut rest).await.expect("a stream");
        assert!(read > 0, "a stream broke off");
        let now = nanoseconds();
        let mut at = 0;
        while let Some(next) = memchr::memchr(b'@', &rest[at..]) {
            let Some(digits) = rest.get(at + next + 1..at + next + 21) else { break };
            // Where a proxy cuts the stream anew, a time may lie on both sides of a cut.
            if let Some(sent) = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()) {
                delays.push(now.saturating_sub(sent));
            }
            at += next + 21;
        }
        if rest.ends_with(b"0\r\n\r\n") {
            return delays;
        }
        rest.drain(..at.max(rest.len().saturating_sub(32)));
    }
}

/// Opens `connections` streams, waits until each has begun, and calls `held` while they are open.
pub fn hold<T>(to: SocketAddr, request: &[u8], connections: usize, held: impl FnOnce() -> T) -> T {
    runtime().block_on(async {
        let mut open = Vec::new();
        for _ in 0..connections {
            let mut stream = connect(to).await;
            stream.write_all(request).await.expect("a proxy that reads");
            open.push(stream);
        }
        let mut piece = [0; 4096];
        for stream in &mut open {
            let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut piece)).await;
            assert!(read.is_ok_and(|read| read.is_ok_and(|read| read > 0)), "a stream did not begin");
        }
        held()
    })
}
