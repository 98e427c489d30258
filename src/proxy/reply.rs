//! What an exchange says to the agent, and to upstream on its behalf.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use super::{
    Proxy,
    admission::Place,
    call::Call,
    decide::{self, Decide},
    downstream::{Broken, Down},
    error::Error,
    events::Line,
    headers::{self, Rewrite},
    payload::Payload,
    relay::Held,
    settlement::Settlement,
    tap::Tap,
    traces::{Asking, Trace},
    upload,
    upstream::{self, Answer, Ask, Cut},
};
use crate::wire::Format;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, response::Parts};
use http_body::Frame;
use hyper::body::Incoming;

pub struct Reply {
    pub proxy: Arc<Proxy>,
    pub call: Arc<Call>,
    /// In one place for as long as an exchange lasts, which moves on from one future to the next.
    pub line: Box<Line>,
    down: Down,
    /// What the agent is still sending of a body that is not wanted.
    pub unread: Option<Incoming>,
    pub place: Option<Place>,
    /// The request to upstream that is under way, where it is traced.
    pub asking: Option<Asking>,
}

impl Reply {
    pub fn new(proxy: Arc<Proxy>, call: Call, path: String, down: Down, started: Instant) -> Reply {
        Reply {
            line: Box::new(Line::new(&call, path, started, proxy.metrics.clone())),
            proxy,
            call: Arc::new(call),
            down,
            unread: None,
            place: None,
            asking: None,
        }
    }

    /// Makes room for a body of so many bytes. Room for one that is too large is not made; that is told in its own words.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Error> {
        let bytes = bytes.min(self.proxy.max_chat_bytes);
        self.place.as_mut().map_or(Ok(()), |place| place.hold(bytes, &self.proxy.limits))
    }

    /// Asks upstream what the agent asked, with this body.
    pub async fn ask(&mut self, payload: Payload, rewrite: Rewrite) -> Result<Answer, Error> {
        let Call { method, target, headers, extensions, is_upgrade, .. } = &*self.call;
        if let Payload::Whole(body) = &payload {
            self.line.bytes_sent = Some(body.len() as u64);
        }
        self.asking = self.call.trace.as_ref().map(|trace| self.asking(trace));
        let onward = self.asking.as_ref().and_then(Asking::onward);
        let ask = Ask { method, target, headers, extensions, rewrite, upgrade: *is_upgrade, onward };
        let pool = &self.call.route.pool;
        let answer = match self.line.retried {
            None => upstream::send(pool, &ask, payload).await,
            // Few exchanges come to this, and none is moved about with room for it.
            Some(_) => Box::pin(upstream::send_second(pool, &ask, payload)).await,
        };
        // Nobody has asked for another protocol, and the agent would read on in this one.
        let answer = answer.and_then(|answer| match answer.head.status {
            StatusCode::SWITCHING_PROTOCOLS if !is_upgrade => Err(Error::Garbled),
            _ => Ok(answer),
        });
        if let Some(asking) = &mut self.asking {
            match &answer {
                Ok(answer) => asking.answered(answer.head.status),
                Err(error) => asking.failed(error.name()),
            }
        }
        let answer = answer?;
        self.line.replayed |= answer.replayed;
        self.line.head(answer.head.status);
        Ok(answer)
    }

    fn asking(&self, trace: &Trace) -> Asking {
        let line = &self.line;
        let chat = self.call.reads.map(|_| (line.provider, line.report.model.as_str()));
        let mut asking = trace.asks(&self.call.route.pool, chat);
        asking.note("http.request.method", self.call.method.as_str());
        asking.note("plimsoll.attempt", line.retried.unwrap_or("first"));
        if line.retried.is_some() {
            asking.count("http.request.resend_count", 1);
        }
        if let Some(bytes) = line.bytes_sent {
            asking.count("http.request.body.size", bytes);
        }
        asking
    }

    /// Puts a question about a body to `decide`. A panic is no answer.
    pub fn consider<T>(&self, format: Format, body: &Bytes, question: impl FnOnce(&Decide, &decide::Incoming) -> T) -> Option<T> {
        let incoming = self.call.incoming(format, body, &self.proxy.windows);
        catch_unwind(AssertUnwindSafe(|| question(&self.proxy.decide, &incoming))).ok()
    }

    /// Whether anything went down already.
    pub fn began(&self) -> bool {
        self.down.began()
    }

    /// Lets a head go down, unless one did.
    pub fn begin(&mut self, head: &mut Parts) {
        if self.down.began() {
            return;
        }
        let (mut down, ()) = http::Response::new(()).into_parts();
        down.status = head.status;
        down.headers = headers::downward(&head.headers, self.call.takes_trailers);
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            headers::keep_upgrade(&head.headers, &mut down.headers);
        }
        // The reason phrase and the spelling of header names.
        down.extensions = std::mem::take(&mut head.extensions);
        if self.call.reads.is_some() && self.proxy.annotate {
            self.annotate(&mut down.headers);
        }
        self.line.head(head.status);
        self.down.begin(down);
    }

    pub async fn frame(&mut self, frame: Frame<Bytes>) {
        self.line.bytes_out += frame.data_ref().map_or(0, Bytes::len) as u64;
        self.down.frame(frame).await;
    }

    /// Passes an answer on to its end. Not `async` itself, so that what came in is carried once.
    pub fn pass(mut self, mut answer: Held) -> impl Future<Output = Result<(), Broken>> + Send {
        self.begin(&mut answer.head);
        let format = self.call.reads.filter(|_| answer.head.status == StatusCode::OK);
        let mut tap = format.map(|format| Tap::new(format, &answer.head.headers));
        let mut ended = answer.is_end();
        if !ended {
            // What is read into stays as long as anything that was cut from it.
            (answer.head.headers, answer.head.extensions) = (HeaderMap::new(), http::Extensions::new());
            self.call = Arc::new(self.call.without_head());
        }
        async move {
            while !ended {
                let Some(frame) = answer.frame().await else { break };
                let frame = frame.map_err(|cut| self.broken(cut))?;
                if let (Some(tap), Some(data)) = (&mut tap, frame.data_ref()) {
                    tap.push(data);
                }
                // Nobody polls again behind a frame that is known to be the last, so the end has to be seen with it.
                ended = frame.is_trailers() || answer.is_end();
                self.frame(frame).await;
            }
            self.line.end = "complete";
            let Reply { proxy, call, line, down, .. } = self;
            down.finish(Settlement::new(proxy, call, tap, line));
            Ok(())
        }
    }

    /// Answers with an error of our own.
    pub async fn refuse(mut self, error: Error) -> Result<(), Broken> {
        self.line.end = error.name();
        self.line.head(error.status());
        if let Some(unread) = self.unread.take() {
            // Apart from this exchange, which is over as soon as its last byte is taken.
            tokio::spawn(upload::discard(unread));
        }
        refuse(&self.down, &error, self.call.format).await
    }

    fn broken(&mut self, cut: Cut) -> Broken {
        self.line.end = match cut {
            Cut::Closed => "upstream_broke_off",
            Cut::Idle => "upstream_idle",
        };
        Broken
    }

    fn annotate(&self, headers: &mut HeaderMap) {
        let report = &self.line.report;
        let rungs = (!report.rungs.is_empty()).then(|| HeaderValue::try_from(report.rungs.join(",")).ok()).flatten();
        let said = [
            (const { HeaderName::from_static("x-plimsoll-trigger") }, report.trigger.map(HeaderValue::from_static)),
            (const { HeaderName::from_static("x-plimsoll-tokens-before") }, report.tokens.map(|(before, _)| before.into())),
            (const { HeaderName::from_static("x-plimsoll-tokens-after") }, report.tokens.map(|(_, after)| after.into())),
            (const { HeaderName::from_static("x-plimsoll-rungs") }, rungs),
            (const { HeaderName::from_static("x-plimsoll-epoch") }, (report.epoch > 0).then(|| report.epoch.into())),
            (
                const { HeaderName::from_static("x-plimsoll-pressure") },
                report.pressure().and_then(|pressure| HeaderValue::try_from(format!("{pressure:.2}")).ok()),
            ),
            (const { HeaderName::from_static("x-plimsoll-retried") }, self.line.retried.map(HeaderValue::from_static)),
        ];
        for (name, value) in said {
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }
}

/// An error of our own to a call of which no more is known than this.
pub async fn refuse(down: &Down, error: &Error, format: Option<Format>) -> Result<(), Broken> {
    let (head, body) = error.answer(format);
    if down.began() {
        return Err(Broken);
    }
    down.begin(head);
    down.frame(Frame::data(body)).await;
    Ok(())
}
