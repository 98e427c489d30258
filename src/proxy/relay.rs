//! Judges the beginning of an answer, while it can still be exchanged for another one.
//!
//! An error, whether it comes as a status or as the first event of a stream, is read and classified before anything of it goes down. Of a
//! stream, comments and pings pass at once; bookkeeping events wait for the first output, two seconds at most. Bytes never overtake bytes.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::{StatusCode, header::CONTENT_ENCODING, response::Parts};
use http_body::Frame;
use tokio::time::{Instant, timeout_at};

use super::{
    encoding::{self, Inflate},
    headers,
    reply::Reply,
    upstream::{Answer, AnswerBody, Cut},
};
use crate::wire::{
    Format,
    overflow::{self, Class, Classified},
    sse::{Frames, HeadEvent, head_event},
};

/// How long something may be held back.
const HOLD: Duration = Duration::from_secs(2);
/// How long the rest of an error may take.
const ERROR_TIME: Duration = Duration::from_secs(10);
/// The longest body of an error that is read.
const ERROR_BYTES: usize = 1 << 20;
/// The longest first event of a stream, and the longest document, that is judged; longer ones are output.
const HEAD_BYTES: usize = 16 << 10;

/// An answer of which the beginning was read.
pub struct Held {
    pub head: Parts,
    ahead: VecDeque<Frame<Bytes>>,
    body: AnswerBody,
    cut: Option<Cut>,
}

/// What the beginning of an answer says.
pub enum Verdict {
    /// Output, or nothing that is known to be an error.
    Pass(Held),
    Refused(Held, Classified),
}

impl Held {
    pub fn new(answer: Answer) -> Held {
        Held { head: answer.head, ahead: VecDeque::new(), body: answer.body, cut: None }
    }

    /// The next frame, or nothing at the end.
    pub async fn frame(&mut self) -> Option<Result<Frame<Bytes>, Cut>> {
        match (self.ahead.pop_front(), self.cut) {
            (Some(frame), _) => {
                if self.ahead.is_empty() {
                    // An answer may go on for minutes, and needs no more room here.
                    self.ahead = VecDeque::new();
                }
                Some(Ok(frame))
            }
            (None, Some(cut)) => Some(Err(cut)),
            (None, None) => self.body.frame().await,
        }
    }

    /// Whether the last frame has been taken.
    pub fn is_end(&self) -> bool {
        self.ahead.is_empty() && self.cut.is_none() && self.body.is_end()
    }

    /// Whether this answer can go down instead of `other`, whose head may already have gone.
    pub fn can_stand_for(&self, other: &Held, began: bool) -> bool {
        let encoding = |held: &Held| held.head.headers.get(CONTENT_ENCODING).cloned();
        !began
            || self.head.status == other.head.status && self.mime().eq_ignore_ascii_case(other.mime()) && encoding(self) == encoding(other)
    }

    /// Reads one frame and keeps it. False at the end, at a break, and behind trailers.
    async fn read(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                let more = frame.is_data();
                self.ahead.push_back(frame);
                more
            }
            Some(Err(cut)) => {
                self.cut = Some(cut);
                false
            }
            None => false,
        }
    }

    /// The data of the frame that was read last.
    fn last(&self) -> Option<&Bytes> {
        self.ahead.back().and_then(Frame::data_ref)
    }

    /// What has been read, in one piece.
    fn collected(&self) -> Bytes {
        let mut pieces = self.ahead.iter().filter_map(Frame::data_ref);
        match (pieces.next(), pieces.next()) {
            (None, _) => Bytes::new(),
            (Some(only), None) => only.clone(),
            (Some(first), Some(second)) => [first, second].into_iter().chain(pieces).flatten().copied().collect(),
        }
    }

    fn collected_len(&self) -> usize {
        self.ahead.iter().filter_map(Frame::data_ref).map(Bytes::len).sum()
    }

    fn mime(&self) -> &str {
        headers::media_type(&self.head.headers)
    }
}

/// Reads as much of an answer to a request of `format` as it takes to tell what it is. What cannot wait goes down through `reply`.
pub async fn judge(answer: Answer, format: Format, reply: &mut Reply) -> Verdict {
    let mut held = Held::new(answer);
    match refusal(&mut held, format, reply).await {
        None => Verdict::Pass(held),
        Some(classified) => Verdict::Refused(held, classified),
    }
}

/// Why upstream refused, where it did.
async fn refusal(held: &mut Held, format: Format, reply: &mut Reply) -> Option<Classified> {
    if held.head.status.as_u16() >= 400 {
        return error(held).await;
    }
    if held.head.status != StatusCode::OK || held.is_end() {
        return None;
    }
    if headers::is_event_stream(&held.head.headers) {
        return stream(held, format, reply).await;
    }
    match held.mime().eq_ignore_ascii_case("application/json") {
        true => document(held, reply).await,
        false => None,
    }
}

/// An answer with an error status.
async fn error(held: &mut Held) -> Option<Classified> {
    let deadline = Instant::now() + ERROR_TIME;
    loop {
        match timeout_at(deadline, held.read()).await {
            Ok(true) if held.collected_len() <= ERROR_BYTES => {}
            Ok(false) if held.cut.is_none() => break,
            _ => return None,
        }
    }
    let body = held.collected();
    let plain = encoding::decode(&held.head.headers, &body, ERROR_BYTES as u64).unwrap_or(body);
    Some(classify(held, &plain, false))
}

/// A stream that began well, as far as its status says.
async fn stream(held: &mut Held, format: Format, reply: &mut Reply) -> Option<Classified> {
    let mut inflate = Inflate::new(&held.head.headers);
    let mut frames = Frames::events(HEAD_BYTES);
    let (mut came, mut framed) = (0u64, 0u64);
    let mut passed = 0;
    let mut quiet = 0;
    let mut spoke = false;
    let mut deadline = Instant::now() + HOLD;
    loop {
        let nothing_held = held.ahead.is_empty();
        match timeout_at(deadline, held.read()).await {
            Ok(true) => {}
            // A stream that ends without having said anything is no answer.
            Ok(false) if !spoke && held.cut.is_none() && came == framed => {
                return Some(classify(held, b"", true));
            }
            Ok(false) => return None,
            Err(_) if nothing_held => {
                reply.begin(&mut held.head);
                // Years, which is to say: until something comes.
                deadline += Duration::from_secs(1 << 30);
                continue;
            }
            Err(_) => return None,
        }
        if nothing_held {
            deadline = Instant::now() + HOLD;
        }
        let plain = held.last().cloned().and_then(|piece| inflate.push(&piece))?;
        came += plain.len() as u64;
        frames.push(plain);
        while let Some(frame) = frames.next_frame() {
            framed += frame.bytes.len() as u64;
            if !frame.whole {
                return None;
            }
            match head_event(format, &frame) {
                HeadEvent::Output | HeadEvent::Done => return None,
                HeadEvent::Error => return Some(classify(held, &frame.bytes, true)),
                HeadEvent::Bookkeeping => spoke = true,
                HeadEvent::Ping if !spoke => quiet = framed,
                HeadEvent::Ping => {}
            }
        }
        if inflate.is_identity() && quiet > passed {
            reply.begin(&mut held.head);
            pass_up_to(held, (quiet - passed) as usize, reply).await;
            passed = quiet;
        } else if !inflate.is_identity() && !spoke && came == framed {
            reply.begin(&mut held.head);
            pass_up_to(held, usize::MAX, reply).await;
        }
    }
}

/// A JSON answer. Some providers answer 200 and put the error inside.
async fn document(held: &mut Held, reply: &mut Reply) -> Option<Classified> {
    let identity = encoding::is_identity(&held.head.headers);
    let mut deadline = Instant::now() + HOLD;
    loop {
        let nothing_held = held.ahead.is_empty();
        match timeout_at(deadline, held.read()).await {
            Ok(true) if held.collected_len() > HEAD_BYTES => return None,
            Ok(true) => {}
            Ok(false) if held.cut.is_some() => return None,
            Ok(false) => break,
            Err(_) if nothing_held => {
                reply.begin(&mut held.head);
                deadline += Duration::from_secs(1 << 30);
                continue;
            }
            Err(_) => return None,
        }
        if nothing_held {
            deadline = Instant::now() + HOLD;
        }
        // Some send blank lines until the model is done, so that nobody hangs up.
        if identity && held.last().is_some_and(|piece| piece.trim_ascii().is_empty()) && held.ahead.len() == 1 {
            reply.begin(&mut held.head);
            pass_up_to(held, usize::MAX, reply).await;
        }
        if held.body.is_end() {
            break;
        }
    }
    let body = held.collected();
    let plain = encoding::decode(&held.head.headers, &body, 4 * HEAD_BYTES as u64)?;
    memchr::memmem::find(&plain, b"\"error\"")?;
    Some(classify(held, &plain, false)).filter(|classified| classified.class != Class::None)
}

fn classify(held: &Held, body: &[u8], stream: bool) -> Classified {
    let headers = held.head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    overflow::classify(overflow::Answer { status: held.head.status.as_u16(), body, stream }, headers)
}

/// Lets the first `length` bytes of what is held go down.
async fn pass_up_to(held: &mut Held, mut length: usize, reply: &mut Reply) {
    while length > 0 {
        let Some(piece) = held.ahead.pop_front().map(Frame::into_data) else { return };
        let Ok(mut piece) = piece else { return };
        if piece.len() > length {
            let rest = piece.split_off(length);
            held.ahead.push_front(Frame::data(rest));
        }
        length -= piece.len();
        reply.frame(Frame::data(piece)).await;
    }
}
