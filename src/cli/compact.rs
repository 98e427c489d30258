//! `plimsoll compact`: what the proxy would send, on standard output.

use super::{body::Body, refuse};
use crate::budget::{Window, load::Scale};
use crate::conversation::Fingerprint;
use crate::decide::{Call, Decider, Decision, Policy, Report, Steer};
use crate::wire::Request;
use bytes::Bytes;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Compact a request body and print it; print the original bytes if nothing is to do
#[derive(Args, Debug)]
pub struct Compact {
    #[command(flatten)]
    body: Body,
    /// Where to land, in tokens. By default as configured: 45 % of the window
    #[arg(long, value_name = "TOKENS")]
    target: Option<u64>,
    /// Compact even below the trigger
    #[arg(long)]
    now: bool,
    /// Write a report as JSON: tokens before and after, the rungs that acted
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Compact {
    pub fn run(self) -> std::io::Result<ExitCode> {
        let body = self.body.read()?;
        let (sent, report) = match Request::read(self.body.format(&body), body.clone()) {
            Err(_) => (body, Report::default()),
            Ok(request) => {
                let policy = match self.body.policy(request.model()) {
                    Ok(policy) => policy,
                    Err(problem) => return Ok(refuse(&problem)),
                };
                let window = self.body.window(&request, &policy);
                self.compact(request, policy.decisions(), window)
            }
        };
        if let Some(path) = &self.report {
            std::fs::write(path, json(&report))?;
        }
        let mut out = std::io::stdout().lock();
        out.write_all(&sent)?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }

    fn compact(&self, request: Request, mut policy: Policy, window: Option<Window>) -> (Bytes, Report) {
        // A window is what the target is a share of.
        let implied = |target| Window { tokens: (target as f64 / policy.gates.target) as u64, separate_output: false };
        let window = window.or(self.target.map(implied));
        if let (Some(target), Some(window)) = (self.target, window) {
            policy.gates.target = target as f64 / window.tokens.max(1) as f64;
        }
        let scale = Scale::of(&request, "");
        let counted =
            scale.rest(&request) + request.conversation.messages.iter().map(|message| scale.message(&request, message)).sum::<u64>();
        let body = request.bytes().clone();
        let call = Call {
            request,
            tenant: Fingerprint::default(),
            upstream: "".into(),
            policy: Arc::new(policy),
            steer: if self.now { Steer::Now } else { Steer::Default },
            focus: String::new(),
            window,
            now: 0,
        };
        match Decider::new(64 << 20, 3600, 16 << 20).before_send(&call) {
            Decision::Send(rewrite) => (rewrite.body, rewrite.report),
            Decision::Pass(report) | Decision::Refuse(report) => {
                (body, Report { tokens: report.tokens.or(Some((counted, counted))), ..report })
            }
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
