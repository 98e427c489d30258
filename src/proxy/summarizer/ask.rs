//! One call to a summary model, and what came back.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
    uri::PathAndQuery,
};

use super::{Caller, Summarizer, lock};
use crate::{
    compact::summary::{Content, Failure, Summarize, SummaryRequest},
    config::{Base, secret},
    proxy::{
        encoding::{self, Inflate},
        headers::{self, Rewrite},
        metrics::provider,
        payload::Payload,
        pool::Pool,
        target,
        traces::Asking,
        upstream::{self, Answer, Ask},
    },
    wire::{
        Format, Listener, Said, alone,
        overflow::{self, Class},
        sse::Frames,
    },
};

/// The longest answer that is read, in bytes, as it is sent and as it decodes; that of a stream, which has an event around every word or two; and its
/// longest event.
const MOST_BYTES: usize = 4 << 20;
const MOST_STREAMED: usize = 16 << 20;
const EVENT: usize = 1 << 20;

/// Where a call goes, and in whose name.
struct Address {
    pool: Arc<Pool>,
    target: PathAndQuery,
    headers: HeaderMap,
    extensions: Extensions,
    format: Format,
}

/// A call that came to nothing.
pub(super) struct Lost {
    pub failure: Failure,
    /// The model had it, so what was asked is billed although nothing of use came back.
    pub billed: bool,
}

/// A call that no model has worked on.
impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        Lost { failure, billed: false }
    }
}

impl Summarizer {
    pub(super) async fn ask(&self, request: &SummaryRequest, model: &str, caller: &Caller) -> Result<Said, Lost> {
        let address = self.address(caller).await.ok_or(Failure::Rejected)?;
        let body = match &request.content {
            Content::Ride(body) => body.clone(),
            Content::Quoted { system, user } => {
                alone(address.format, model, system, user, Some((cap(address.format, &address.pool.base), request.output)))
            }
        };
        // An idempotency key is the agent's request's own.
        let rewrite = Rewrite { length: Some(body.len()), again: true };
        let Address { pool, target, headers, extensions, format } = &address;
        let mut asking = caller.trace.as_ref().map(|trace| trace.asks(pool, Some((provider(pool.base.host()), model))));
        if let Some(asking) = &mut asking {
            asking.note("plimsoll.summary", request.way);
            asking.count("http.request.body.size", body.len() as u64);
        }
        let onward = asking.as_ref().and_then(Asking::onward);
        let ask = Ask { method: &Method::POST, target, headers, extensions, rewrite, upgrade: false, onward };
        let said = match upstream::send(pool, &ask, Payload::Whole(body.into())).await {
            Ok(answer) => {
                if let Some(asking) = &mut asking {
                    asking.answered(answer.head.status);
                }
                let is_worked_on = answer.head.status == StatusCode::OK;
                read(answer, *format).await.map_err(|failure| Lost { failure, billed: is_worked_on })
            }
            Err(error) => {
                if let Some(asking) = &mut asking {
                    asking.failed(error.name());
                }
                Err(Failure::Silent.into())
            }
        };
        if let (Some(asking), Ok(said)) = (&mut asking, &said) {
            asking.used(said.usage);
        }
        said
    }

    /// Where the agent's own request goes, or the upstream that is set for summaries.
    async fn address(&self, caller: &Caller) -> Option<Address> {
        let Caller { knobs, format, .. } = caller;
        if knobs.upstream.is_empty() {
            let Caller { pool, target, headers, extensions, .. } = caller;
            let (pool, target, headers, extensions) = (pool.clone(), target.clone(), headers.clone(), extensions.clone());
            return Some(Address { pool, target, headers, extensions, format: *format });
        }
        let format = knobs.format.parse().unwrap_or(*format);
        let pool = self.pool(&knobs.upstream, &caller.pool)?;
        let path = match format {
            Format::Chat => "/v1/chat/completions",
            Format::Responses => "/v1/responses",
            Format::Messages => "/v1/messages",
        };
        let target = target::join(&pool.base, path, None).ok()?;
        Some(Address { pool, target, headers: own_headers(knobs, format).await?, extensions: Extensions::new(), format })
    }

    fn pool(&self, url: &str, like: &Pool) -> Option<Arc<Pool>> {
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.get(url) {
            return Some(pool.clone());
        }
        let pool = Arc::new(Pool::new(Base::parse(url).ok()?, like.settings.clone()).ok()?);
        pools.insert(url.to_owned(), pool.clone());
        Some(pool)
    }
}

/// The member that caps the output there. OpenAI's newer models refuse the old name, other servers do not know the new one.
fn cap(format: Format, base: &Base) -> &'static str {
    match format {
        Format::Chat if !base.host().ends_with("openai.com") => "max_tokens",
        _ => format.output_caps()[0],
    }
}

/// Headers with a credential of our own; nothing where it is set but cannot be had.
async fn own_headers(knobs: &Summarize, format: Format) -> Option<HeaderMap> {
    let named = knobs.key.clone();
    let key = tokio::task::spawn_blocking(move || secret::read("", &named)).await.ok()?.ok()?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(headers::PLIMSOLL));
    if format == Format::Messages {
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
    }
    if let Some(key) = key {
        let (name, value) = match format {
            Format::Messages => (HeaderName::from_static("x-api-key"), key),
            _ => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Some(headers)
}

async fn read(mut answer: Answer, format: Format) -> Result<Said, Failure> {
    let head = &answer.head;
    if head.status == StatusCode::OK && headers::is_event_stream(&head.headers) {
        let mut inflate = Inflate::new(&head.headers);
        let (mut frames, mut listener) = (Frames::events(EVENT), Listener::new(format));
        let mut left = MOST_STREAMED;
        while let Some(frame) = answer.body.frame().await {
            let Ok(piece) = frame.map_err(|_| Failure::Silent)?.into_data() else { continue };
            let plain = inflate.push(&piece).ok_or(Failure::Rejected)?;
            left = left.checked_sub(plain.len()).ok_or(Failure::Rejected)?;
            frames.push(plain);
            while let Some(frame) = frames.next_frame() {
                listener.frame(&frame);
            }
        }
        return listener.said().ok_or(Failure::Unavailable);
    }
    let mut body = Vec::new();
    while let Some(frame) = answer.body.frame().await {
        let Ok(piece) = frame.map_err(|_| Failure::Silent)?.into_data() else { continue };
        if body.len() + piece.len() > MOST_BYTES {
            return Err(if answer.head.status.is_server_error() { Failure::Unavailable } else { Failure::Rejected });
        }
        body.extend_from_slice(&piece);
    }
    let body = encoding::decode(&answer.head.headers, &body.into(), MOST_BYTES as u64).ok_or(Failure::Rejected)?;
    match answer.head.status {
        StatusCode::OK => Said::of_answer(format, &body).ok_or(Failure::Unavailable),
        status => Err(refusal(status, &answer.head.headers, &body)),
    }
}

fn refusal(status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Failure {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    match overflow::classify(overflow::Answer { status: status.as_u16(), body, stream: false }, headers).class {
        Class::Input | Class::InputPlusOutput | Class::Bytes => Failure::TooLong,
        _ if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) => Failure::Unavailable,
        _ => Failure::Rejected,
    }
}
