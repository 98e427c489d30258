//! Asks upstream, and reads what it answers.

mod idle;

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use http::{
    Extensions, HeaderMap, HeaderValue, Method, Request, Uri, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
    response::Parts,
    uri::PathAndQuery,
};
use http_body::{Body, Frame};
use hyper::body::Incoming;

use self::idle::Patience;
use super::{
    error::Error,
    headers::{self, Rewrite},
    news::News,
    payload::{Again, Payload, Track},
    pool::{Carrier, Pool},
    repoll::quietly,
    traces::Onward,
};
use crate::config::seconds;

/// A connection that upstream closed unseen shows within a round trip or two. Silence that ends later than this is upstream's own failure
/// at work that it had begun, and asking again could do that work twice.
const STALE: Duration = Duration::from_secs(5);

/// What is asked, in the agent's own words.
pub struct Ask<'a> {
    pub method: &'a Method,
    pub target: &'a PathAndQuery,
    pub headers: &'a HeaderMap,
    /// Carries how the agent spelt its header names.
    pub extensions: &'a Extensions,
    pub rewrite: Rewrite,
    pub upgrade: bool,
    /// What upstream is told of our trace.
    pub onward: Option<Onward>,
}

impl Ask<'_> {
    fn request(&self, pool: &Pool, carrier: &Carrier, payload: Payload) -> Result<Request<Payload>, Error> {
        let shared = matches!(carrier, Carrier::Many(_));
        let streams = matches!(payload, Payload::Stream(_));
        let mut headers = headers::upward(self.headers, (!shared).then_some(&pool.host), self.rewrite, self.onward.as_ref(), streams);
        match &payload {
            _ if shared => {}
            Payload::Whole(bytes) if !headers.contains_key(CONTENT_LENGTH) => {
                drop(headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len())))
            }
            Payload::Stream(_) if !headers.contains_key(CONTENT_LENGTH) => {
                drop(headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")))
            }
            _ => {}
        }
        if self.upgrade && !shared {
            headers::keep_upgrade(self.headers, &mut headers);
        }
        let mut request = Request::new(payload);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = headers;
        *request.version_mut() = if shared { Version::HTTP_2 } else { Version::HTTP_11 };
        *request.extensions_mut() = self.extensions.clone();
        *request.uri_mut() = match shared {
            true => pool.absolute(self.target).ok_or(Error::Malformed)?,
            false => Uri::from(self.target.clone()),
        };
        Ok(request)
    }
}

/// The head of an answer, and its body to be read.
pub struct Answer {
    pub head: Parts,
    pub body: AnswerBody,
    /// The request went out twice, because the first connection turned out to be dead.
    pub replayed: bool,
}

/// Sends one request. Upstream works on it once: it is sent again only where upstream says that it did not look at it, or where the connection, used
/// before, ends at once and without a byte.
pub async fn send(pool: &Arc<Pool>, ask: &Ask<'_>, payload: Payload) -> Result<Answer, Error> {
    let again = payload.again();
    let started = Instant::now();
    let carrier = pool.get().await?;
    let used = carrier.is_used();
    match attempt(pool, carrier, ask, payload).await {
        Err(Failure { error, processed: Processed::No }) => replay(pool, ask, again, error).await,
        Err(Failure { error, processed: Processed::Unheard }) if used && started.elapsed() < STALE => replay(pool, ask, again, error).await,
        answer => answer.map_err(|failure| failure.error),
    }
}

/// Sends a second request of the same exchange. Upstream may have worked on the first, so there is never a third that it could have worked on: this one
/// goes on a connection that nobody has used, where silence says nothing of the connection.
pub async fn send_second(pool: &Arc<Pool>, ask: &Ask<'_>, payload: Payload) -> Result<Answer, Error> {
    let again = payload.again();
    match attempt(pool, pool.fresh().await?, ask, payload).await {
        Err(Failure { error, processed: Processed::No }) => replay(pool, ask, again, error).await,
        answer => answer.map_err(|failure| failure.error),
    }
}

/// In a place of its own: few requests come to this, and none is moved about with room for it.
fn replay<'a>(pool: &'a Arc<Pool>, ask: &'a Ask<'_>, again: Again, error: Error) -> BoxFuture<'a, Result<Answer, Error>> {
    Box::pin(async move {
        let payload = again.payload().ok_or(error)?;
        let answer = attempt(pool, pool.fresh().await?, ask, payload).await.map_err(|failure| failure.error)?;
        Ok(Answer { replayed: true, ..answer })
    })
}

/// A request without an answer.
struct Failure {
    error: Error,
    processed: Processed,
}

/// Whether upstream can have begun to work on a request.
enum Processed {
    /// It says that it has not.
    No,
    /// It said nothing, to anybody on this connection.
    Unheard,
    Perhaps,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, processed: Processed::Perhaps }
    }
}

async fn attempt(pool: &Arc<Pool>, mut carrier: Carrier, ask: &Ask<'_>, payload: Payload) -> Result<Answer, Failure> {
    let upload = payload.track();
    let sent = || upload.as_ref().map_or(0, |upload| upload.progress());
    let request = ask.request(pool, &carrier, payload)?;
    let response = {
        let mut answer = pin!(carrier.send(request));
        loop {
            let progress = sent();
            match tokio::time::timeout(seconds(pool.settings.response_timeout), &mut answer).await {
                Ok(answer) => break answer,
                // An upload may take long as long as it moves.
                Err(_) if sent() > progress => {}
                Err(_) => return Err(Error::ResponseTimeout.into()),
            }
        }
    };
    let response = response.map_err(|error| judge(&error, carrier.has_heard()))?;
    let (head, incoming) = response.into_parts();
    let patience = Patience::new(seconds(pool.settings.idle_timeout));
    let mut body = AnswerBody { incoming, carrier: Some(carrier), upload, pool: pool.clone(), patience, news: News::new() };
    if body.incoming.is_end_stream() && head.status != http::StatusCode::SWITCHING_PROTOCOLS {
        poll_fn(|cx| {
            body.release(cx);
            Poll::Ready(())
        })
        .await;
    }
    Ok(Answer { head, body, replayed: false })
}

fn judge(error: &hyper::Error, heard: bool) -> Failure {
    tracing::debug!(cause = %error, "no answer");
    let stream = std::error::Error::source(error).and_then(|source| source.downcast_ref::<h2::Error>());
    let is_refused = |stream: &h2::Error| {
        // Streams that a farewell leaves out, and those that are turned away, were not looked at.
        stream.is_remote() && (stream.is_go_away() || stream.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    match error {
        error if error.is_parse() => Error::Garbled.into(),
        // The only thing of ours that can fail under hyper is the agent's own upload.
        error if error.is_user() => Error::AgentGone.into(),
        _ if stream.is_some_and(is_refused) => Failure { error: Error::Closed, processed: Processed::No },
        _ if !heard => Failure { error: Error::Closed, processed: Processed::Unheard },
        // Half a head is an answer of sorts: upstream was there, and began to work.
        _ if stream.is_none() => Error::Garbled.into(),
        _ => Error::Closed.into(),
    }
}

/// The body of an answer. Its connection goes back to the pool when the body has been read to its end, and is closed otherwise.
pub struct AnswerBody {
    incoming: Incoming,
    carrier: Option<Carrier>,
    upload: Option<Arc<Track>>,
    pool: Arc<Pool>,
    patience: Patience,
    news: News,
}

/// Why a body ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Closed,
    Idle,
}

impl AnswerBody {
    /// The next frame, or nothing at the end.
    pub async fn frame(&mut self) -> Option<Result<Frame<bytes::Bytes>, Cut>> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Whether the last frame has been read. May say no when all that is missing is to notice the end.
    pub fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The carrier of an upgraded connection.
    pub fn into_carrier(mut self) -> Option<Carrier> {
        self.carrier.take()
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Cut>>> {
        let Some(waker) = self.news.take(cx) else { return Poll::Pending };
        let frame = self.poll_news(&mut Context::from_waker(&waker));
        if frame.is_ready() {
            self.news.go_on();
        }
        frame
    }

    fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Cut>>> {
        let frame = match &mut self.carrier {
            // Nobody but us moves this connection, so its body has something new only after it was polled here and need not wake anybody; and who asks
            // for more need not wake the connection, which is polled next.
            Some(Carrier::One(link)) => {
                let mut unwoken = Context::from_waker(Waker::noop());
                let mut poll_frame = || quietly(|| Pin::new(&mut self.incoming).poll_frame(&mut unwoken));
                match poll_frame() {
                    Poll::Pending => {
                        link.poll(cx);
                        poll_frame()
                    }
                    frame => frame,
                }
            }
            _ => Pin::new(&mut self.incoming).poll_frame(cx),
        };
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.patience.touch();
                if frame.is_trailers() || self.incoming.is_end_stream() {
                    self.release(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(cause = %error, "answer broke off");
                self.carrier = None;
                Poll::Ready(Some(Err(Cut::Closed)))
            }
            Poll::Ready(None) => {
                self.release(cx);
                Poll::Ready(None)
            }
            Poll::Pending => {
                ready!(self.patience.poll_lost(cx));
                self.carrier = None;
                Poll::Ready(Some(Err(Cut::Idle)))
            }
        }
    }

    fn release(&mut self, cx: &mut Context<'_>) {
        if let Some(Carrier::One(link)) = self.carrier.take() {
            self.pool.put(link, cx);
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some(upload) = &self.upload {
            upload.stop();
        }
    }
}
