//! How upstream is brought to answer: with what was decided, and once more after a refusal that is ours to mend.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use bytes::Bytes;
use hyper::body::Incoming;

use super::{
    Proxy,
    decide::{self, Decision, Report, Ticket},
    encoding,
    error::Error,
    headers::Rewrite,
    payload::Payload,
    relay::{self, Held, Verdict},
    reply::Reply,
    upload,
};
use crate::wire::{
    Format,
    overflow::{Class, Classified},
};

/// The answer that the agent gets: upstream's to what it asked, or to less of it.
pub async fn answer(proxy: &Proxy, upload: Incoming, reply: &mut Reply) -> Result<Held, Error> {
    let Some(format) = reply.call.reads else {
        let payload = upload::pass(upload, proxy.request_idle).await?;
        return reply.ask(payload, Rewrite::default()).await.map(Held::new);
    };
    let original = collect(proxy, upload, reply).await?;
    let collected = Instant::now();
    let Some(tried) = decide(proxy, format, &original, reply).await? else {
        return reply.ask(Payload::Whole(original), Rewrite::default()).await.map(Held::new);
    };
    reply.line.added = Some(collected.elapsed());

    let rewrite = Rewrite { length: tried.edited.as_ref().map(|body| body.len()), again: false };
    let first = reply.ask(Payload::Whole(tried.edited.clone().unwrap_or_else(|| original.clone())), rewrite).await?;
    match relay::judge(first, format, reply).await {
        Verdict::Pass(answer) => Ok(answer),
        // Few exchanges come to this, and all would be moved about with room for it.
        Verdict::Refused(first, refusal) => Ok(Box::pin(try_again(proxy, format, original, tried, first, refusal, reply)).await),
    }
}

/// The whole body, as it came.
async fn collect(proxy: &Proxy, mut upload: Incoming, reply: &mut Reply) -> Result<Bytes, Error> {
    let collected = upload::collect(&mut upload, proxy.max_chat_bytes, proxy.request_idle, |bytes| reply.hold(bytes)).await;
    let original = match collected {
        Ok(original) => original,
        Err(error) => {
            reply.unread = matches!(error, Error::TooLarge(_) | Error::Busy).then_some(upload);
            return Err(error);
        }
    };
    reply.line.bytes_in = Some(original.len() as u64);
    Ok(original)
}

/// What is tried first.
struct Tried {
    /// What came, decoded.
    plain: Bytes,
    /// What is sent in its place, and the name of that decision.
    edited: Option<Bytes>,
    ticket: Option<Ticket>,
}

/// Decides what is sent. Nothing where that cannot be decided: then what came is sent, and whatever upstream says to it goes down.
async fn decide(proxy: &Proxy, format: Format, original: &Bytes, reply: &mut Reply) -> Result<Option<Tried>, Error> {
    let plain = decoded(proxy, original, reply);
    // A few bytes may decode to many.
    reply.hold(plain.as_ref().map_or(0, |plain| plain.len() as u64))?;
    let undecided = |cause| Report { cause: Some(cause), ..Report::default() };
    let Some(plain) = plain else {
        reply.line.report = undecided("undecodable");
        return Ok(None);
    };
    let decision = loop {
        match reply.consider(format, &plain, |decide, incoming| decide.before_send(incoming)) {
            Some(Ok(decision)) => break decision,
            Some(Err(wait)) => wait.over().await,
            None => {
                reply.line.report = undecided("panic");
                return Ok(None);
            }
        }
    };
    let (report, edited, ticket) = match decision {
        Decision::Refuse(report) => return Err(Error::Refused(decide::too_long(format, &report))),
        Decision::Pass(report) => (report, None, None),
        Decision::Send(rewrite) => (rewrite.report, Some(rewrite.body), Some(rewrite.ticket)),
    };
    reply.line.report = report;
    Ok(Some(Tried { plain, edited, ticket }))
}

/// What came, without its encodings. A few bytes may take long to decode.
fn decoded(proxy: &Proxy, original: &Bytes, reply: &Reply) -> Option<Bytes> {
    if encoding::is_identity(&reply.call.headers) {
        return Some(original.clone());
    }
    let decode = || encoding::decode(&reply.call.headers, original, proxy.max_chat_bytes);
    catch_unwind(AssertUnwindSafe(|| decide::aside(decode))).ok().flatten()
}

/// After a refusal, and before anything that matters has gone down, there is one more try. Whatever becomes of it, the first refusal is what the agent
/// gets if not an answer, because agents heal themselves by its words and numbers.
async fn try_again(
    proxy: &Proxy,
    format: Format,
    original: Bytes,
    tried: Tried,
    first: Held,
    refusal: Classified,
    reply: &mut Reply,
) -> Held {
    reply.asking = None;
    let status = first.head.status.as_u16();
    if is_overflow(&refusal, status, reply) {
        reply.line.overflow = Some(refusal.rule);
        return try_harder(proxy, format, tried, first, refusal, reply).await;
    }
    match tried.ticket {
        Some(ticket) if blames_body(status) => {
            reply.line.retried = Some("original");
            proxy.decide.quarantine(ticket);
            let second = reply.ask(Payload::Whole(original), Rewrite { length: None, again: true }).await;
            second.map_or(first, Held::new)
        }
        _ => first,
    }
}

/// Asks with less.
async fn try_harder(proxy: &Proxy, format: Format, tried: Tried, first: Held, refusal: Classified, reply: &mut Reply) -> Held {
    let Tried { plain, edited, .. } = tried;
    let sent = edited.unwrap_or_else(|| plain.clone());
    let harder = reply.consider(format, &plain, |decide, incoming| decide.after_overflow(incoming, &sent, &refusal));
    let Some(decide::Rewrite { body, report, ticket }) = harder.flatten() else { return first };
    reply.line.retried = Some("harder");
    let rewrite = Rewrite { length: Some(body.len()), again: true };
    let Ok(second) = reply.ask(Payload::Whole(body), rewrite).await else { return first };
    match relay::judge(second, format, reply).await {
        Verdict::Pass(second) if second.can_stand_for(&first, reply.began()) => {
            reply.line.report = report;
            proxy.decide.accepted(&ticket);
            second
        }
        Verdict::Pass(_) => first,
        Verdict::Refused(second, refusal) => {
            let status = second.head.status.as_u16();
            // Still too long says nothing against the edits.
            if blames_body(status) && !is_overflow(&refusal, status, reply) {
                proxy.decide.quarantine(ticket);
            }
            first
        }
    }
}

/// Whether a refusal is one of the body, which our edits may be to blame for.
fn blames_body(status: u16) -> bool {
    matches!(status, 400 | 422)
}

/// From this share of the window on, a refusal without a reason is taken for an overflow.
const NEARLY_FULL: f64 = 0.8;

/// Whether a refusal means that the request is too long, and may be answered by a shorter one.
fn is_overflow(refusal: &Classified, status: u16, reply: &Reply) -> bool {
    let policy = reply.call.route.policies.of(&reply.line.report.model).overflow.clone();
    policy.retry
        && match refusal.class {
            // Some say nothing at all; a request that nearly fills its window was too long for them.
            Class::None => refusal.needs_estimate() && reply.line.report.pressure().is_some_and(|pressure| pressure >= NEARLY_FULL),
            Class::Input | Class::InputPlusOutput | Class::Bytes => true,
            Class::RateCeiling => status == 413 || policy.rate_ceiling_429,
        }
}
