//! `plimsoll compact`: what the proxy would send, on standard output.

use crate::budget::{Window, load::Scale};
use crate::conversation::Fingerprint;
use crate::decide::{Call, Decider, Decision, Policy, Report, Steer};
use crate::wire::{Format, Request};
use bytes::Bytes;
use clap::Args;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Compact a request body and print it; print the original bytes if nothing is to do
#[derive(Args, Debug)]
pub struct Compact {
    /// Wire format: chat, responses or messages. Read from the body where it is not given
    #[arg(long)]
    format: Option<Format>,
    /// The model's context window, in tokens. By default that of the model in the built-in table
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    /// Where to land, in tokens. By default 45 % of the window
    #[arg(long, value_name = "TOKENS")]
    target: Option<u64>,
    /// Compact even below the trigger
    #[arg(long)]
    now: bool,
    /// Write a report as JSON: tokens before and after, the rungs that acted
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The body, or - for standard input
    file: PathBuf,
}

impl Compact {
    pub fn run(self) -> std::io::Result<ExitCode> {
        let body = read(&self.file)?;
        let format = self.format.unwrap_or_else(|| std::str::from_utf8(&body).map_or(Format::Chat, Format::of_body));
        let (sent, report) = compact(&body, format, self.window, self.target, self.now);
        if let Some(path) = &self.report {
            std::fs::write(path, json(&report))?;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&sent)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A file's bytes, or those of standard input.
pub fn read(path: &std::path::Path) -> std::io::Result<Bytes> {
    let mut body = Vec::new();
    if path == std::path::Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut body)?;
    } else {
        std::fs::File::open(path)?.read_to_end(&mut body)?;
    }
    Ok(body.into())
}

fn compact(body: &Bytes, format: Format, window: Option<u64>, target: Option<u64>, now: bool) -> (Bytes, Report) {
    let mut policy = Policy::default();
    let window = window.or(target.map(|target| (target as f64 / policy.gates.target) as u64));
    if let (Some(target), Some(window)) = (target, window) {
        policy.gates.target = target as f64 / window.max(1) as f64;
    }
    let Ok(request) = Request::read(format, body.clone()) else { return (body.clone(), Report::default()) };
    let scale = Scale::of(&request, "");
    let counted = scale.rest(&request) + request.conversation.messages.iter().map(|message| scale.message(&request, message)).sum::<u64>();
    let call = Call {
        request,
        tenant: Fingerprint::default(),
        upstream: "".into(),
        policy: Arc::new(policy),
        steer: if now { Steer::Now } else { Steer::Default },
        window: window.map(|tokens| Window { tokens, separate_output: false }),
        now: 0,
    };
    match Decider::new(64 << 20, 3600, 16 << 20).before_send(&call) {
        Decision::Send(rewrite) => (rewrite.body, rewrite.report),
        Decision::Pass(report) | Decision::Refuse(report) => {
            (body.clone(), Report { tokens: report.tokens.or(Some((counted, counted))), ..report })
        }
    }
}

fn json(report: &Report) -> String {
    let (before, after) = report.tokens.unwrap_or_default();
    let after = if report.edited { after } else { before };
    serde_json::json!({
        "before": before,
        "after": after,
        "rungs": if report.edited { report.rungs.clone() } else { Vec::new() },
        "trigger": report.trigger,
        "epoch": report.epoch,
        "window": report.window,
        "cause": report.cause,
    })
    .to_string()
}
