use std::convert::Infallible;

use http::Response;
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::oneshot,
    task::JoinHandle,
};

use super::*;
use crate::proxy::downstream::{Answering, Down, Run};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
/// What is answered, as short as what is copied before it is written.
const ANSWER: &[u8] = &{
    let mut answer = [b'.'; 200];
    (answer[0], answer[199]) = (b'<', b'>');
    answer
};
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Settings, of which there are none.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// Answers may send one byte until they are told otherwise.
const NARROW: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\x01";
/// The first answer may send more.
const WIDEN: &[u8] = b"\0\0\x04\x08\0\0\0\0\x01\0\x01\0\0";
/// What REQUEST says, on the first stream.
const GET: &[u8] = b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01h";
/// Confirms that the farewell has come.
const PONG: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0\x0b\x7b\xa2\xf0\x8b\x9b\xfe\x54";

#[derive(Clone, Copy, Debug)]
enum Speaks {
    Http1,
    Http2,
}

struct Served {
    agent: DuplexStream,
    heard: Vec<u8>,
    stop: Option<oneshot::Sender<()>>,
    /// Whether it ended by itself, and was not given up.
    end: JoinHandle<bool>,
}

impl Served {
    /// Answers every request with ANSWER, through a pipe that holds `room` bytes.
    fn new(speaks: Speaks, last: Duration, room: usize) -> Served {
        let limits = Limits { head: LONG, silence: LONG, last };
        let (agent, stream) = duplex(room);
        let (stop, stopped) = oneshot::channel();
        let told = Box::pin(async move { drop(stopped.await) });
        let head = match speaks {
            Speaks::Http1 => Head::http1(),
            Speaks::Http2 => Head::http2(),
        };
        let coming = head.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let (asked, down) = (coming.came(), Down::default());
            let answer = down.clone();
            let run = Run::last(async move {
                answer.begin(Response::new(()).into_parts().0);
                answer.frame(Frame::data(Bytes::from_static(ANSWER))).await;
                Ok(())
            });
            async move { Ok::<_, Infallible>(Answering::new(down, run).await?.map(|body| Ending::new(body, asked))) }
        });
        let stream = TokioIo::new(Watched::new(&[], stream, head.clone()));
        let end = match speaks {
            Speaks::Http1 => {
                let connection = http1::Builder::new().serve_connection(stream, service);
                let patient = Patient::new(connection, http1::Connection::graceful_shutdown, told, head, limits);
                tokio::spawn(async { patient.await.is_some() })
            }
            Speaks::Http2 => {
                let connection = http2::Builder::new(TokioExecutor::new()).auto_date_header(false).serve_connection(stream, service);
                let patient = Patient::new(connection, http2::Connection::graceful_shutdown, told, head, limits);
                tokio::spawn(async { patient.await.is_some() })
            }
        };
        Served { agent, heard: Vec::new(), stop: Some(stop), end }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.agent.write_all(bytes).await.unwrap();
        // All that can be done about it is done.
        tokio::task::yield_now().await;
    }

    /// Reads up to these bytes.
    async fn until(&mut self, bytes: &[u8]) {
        while !self.heard.ends_with(bytes) {
            self.heard.push(self.agent.read_u8().await.unwrap());
        }
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }
}

#[tokio::test]
async fn what_has_only_begun_does_not_hold_up_the_end() {
    let check = async |speaks: Speaks, answered: bool, said: &[&[u8]], ends_by_itself: bool| {
        let mut served = Served::new(speaks, SHORT, 4096);
        if answered {
            served.send(REQUEST).await;
            served.until(ANSWER).await;
        }
        served.send(&said.concat()).await;
        served.stop();
        assert_eq!(served.end.await.unwrap(), ends_by_itself, "{speaks:?} {answered} {said:?}");
    };
    for answered in [false, true] {
        check(Speaks::Http1, answered, &[], true).await;
        for said in [&b"P"[..], b"\r\n", b"POST / HTTP/1.1\r\nHost: h\r\nContent-"] {
            check(Speaks::Http1, answered, &[said], false).await;
        }
    }
    for said in [&[&b"PRI "[..]][..], &[PREFACE], &[PREFACE, SETTINGS], &[PREFACE, SETTINGS, &GET[..12]], &[PREFACE, SETTINGS, GET]] {
        check(Speaks::Http2, false, said, false).await;
    }
}

#[tokio::test]
async fn a_head_that_is_coming_when_the_end_begins_is_answered() {
    for answered in [false, true] {
        let mut served = Served::new(Speaks::Http1, LONG, 4096);
        if answered {
            served.send(REQUEST).await;
            served.until(ANSWER).await;
        }
        served.send(&REQUEST[..20]).await;
        served.stop();
        tokio::task::yield_now().await;
        served.send(&REQUEST[20..]).await;
        served.until(ANSWER).await;
        assert!(served.end.await.unwrap(), "{answered}");
    }
}

#[tokio::test]
async fn an_agent_on_http2_that_hears_of_the_end_is_let_go_at_once() {
    let mut served = Served::new(Speaks::Http2, LONG, 4096);
    served.send(&[PREFACE, SETTINGS, GET].concat()).await;
    served.until(b">").await;
    served.stop();
    served.until(&PONG[9..]).await;
    served.send(PONG).await;
    assert!(served.end.await.unwrap());
}

/// Hyper has done with a body long before the last of it is written.
#[tokio::test]
async fn an_answer_that_an_agent_is_slow_to_take_is_not_cut() {
    for (settings, room) in [(NARROW, 4096), (SETTINGS, 64)] {
        let mut slow = Served::new(Speaks::Http2, SHORT, room);
        slow.send(&[PREFACE, settings, GET].concat()).await;
        slow.until(b"<").await;
        slow.stop();
        // One that waits for nothing is given up meanwhile.
        let mut idle = Served::new(Speaks::Http2, SHORT, 4096);
        idle.send(&[PREFACE, SETTINGS].concat()).await;
        idle.stop();
        assert!(!idle.end.await.unwrap());
        slow.send(WIDEN).await;
        slow.until(b">").await;
        assert!(!slow.end.await.unwrap(), "nothing is left to wait for");
    }
}
