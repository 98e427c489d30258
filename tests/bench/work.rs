//! What is done to a request, piece by piece, for criterion and for counting instructions.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll::{
    budget::Window,
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Policy, Steer},
    tokens::Tokenizer,
    wire::{
        Format, Request, check,
        overflow::{Answer, classify},
        sse::Frames,
        usage::Tap,
    },
};

use super::payload::{self, Writer};

/// One kind of work: its name, the bytes that go through it, and a function that does it once.
#[allow(dead_code)] // one of its two users reads each field
pub struct Work {
    pub name: &'static str,
    pub bytes: usize,
    pub once: Box<dyn FnMut()>,
}

/// Long enough that what is done once for a request does not count, short enough for callgrind.
const BODY: usize = 256 << 10;
/// A window that the body is over.
const WINDOW: u64 = 32_000;

pub const NAMES: [&str; 9] = ["read", "recognise", "count", "seen", "ledger", "epoch", "splice", "stream", "classify"];

/// Prepares the work of this name.
pub fn named(name: &'static str) -> Work {
    let body = Bytes::from(payload::request(1, BODY));
    let bytes = body.len();
    let work = move |once: Box<dyn FnMut()>| Work { name, bytes, once };
    match name {
        "read" => work(Box::new(move || {
            read(&body);
        })),
        "recognise" => {
            let decider = decider();
            work(Box::new(move || assert!(decider.read(Format::Chat, body.clone(), Fingerprint::default()).is_ok())))
        }
        "count" => {
            let mut writer = Writer::new(4);
            let text: String = (0..35).map(|_| writer.prose(1500) + &writer.output(6000)).collect();
            Work { name, bytes: text.len(), once: Box::new(move || assert!(Tokenizer::O200k.count(&text) > 0)) }
        }
        "seen" => {
            let (decider, window) = (decider(), bytes as u64 * 3 / 4);
            decide(&decider, &body, window, Steer::Default);
            work(Box::new(move || assert!(!decide(&decider, &body, window, Steer::Default))))
        }
        "ledger" => {
            let decider = decider();
            decide(&decider, &body, WINDOW, Steer::Default);
            work(Box::new(move || assert!(decide(&decider, &body, WINDOW, Steer::Default))))
        }
        "epoch" => {
            // Every round is another conversation, that was counted before.
            let mut window = bytes as u64 * 2 / 5;
            let decider = decider();
            decide(&decider, &body, window, Steer::Default);
            work(Box::new(move || {
                window += 1000;
                assert!(decide(&decider, &body, window, Steer::Now));
            }))
        }
        "splice" => {
            let decider = decider();
            let call = call(read(&body), WINDOW, Steer::Default);
            let Decision::Send(rewrite) = decider.before_send(&call) else { panic!("it is compacted") };
            let went = read(&rewrite.body);
            work(Box::new(move || assert!(check::rewrite(&call.request, &went).is_empty())))
        }
        "stream" => {
            let chunk = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
            let stream = Bytes::from(chunk.repeat(2000));
            Work { name, bytes: stream.len(), once: Box::new(move || tap(&stream)) }
        }
        "classify" => {
            let body = r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130123 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
            let answer =
                move || classify(Answer { status: 400, body: body.as_bytes(), stream: false }, std::iter::empty::<(&str, &[u8])>());
            Work { name, bytes: body.len(), once: Box::new(move || assert_eq!(answer().limit, Some(128_000))) }
        }
        _ => panic!("no work of the name {name}"),
    }
}

fn decider() -> Decider {
    Decider::new(64 << 20, 3600, 32 << 20)
}

fn read(body: &Bytes) -> Request {
    Request::read(Format::Chat, body.clone()).unwrap_or_else(|_| panic!("a request"))
}

fn call(request: Request, window: u64, steer: Steer) -> Call {
    Call {
        request,
        tenant: Fingerprint::default(),
        upstream: "api.example".into(),
        policy: Arc::new(Policy::default()),
        steer,
        focus: String::new(),
        window: Some(Window { tokens: window, separate_output: false }),
        now: 0,
    }
}

/// Whether the body was edited.
fn decide(decider: &Decider, body: &Bytes, window: u64, steer: Steer) -> bool {
    let request = decider.read(Format::Chat, body.clone(), Fingerprint::default()).unwrap_or_else(|_| panic!("a request"));
    matches!(decider.before_send(&call(request, window, steer)), Decision::Send(_))
}

fn tap(stream: &Bytes) {
    let (mut frames, mut tap) = (Frames::events(64 << 10), Tap::new(Format::Chat));
    let mut rest = stream.clone();
    while !rest.is_empty() {
        frames.push(rest.split_to(rest.len().min(1000)));
        while let Some(frame) = frames.next_frame() {
            tap.frame(&frame);
        }
    }
}
