//! What the admin port tells Prometheus: one entry a metric, in the list below.
//!
//! Names are OpenTelemetry's for generative AI where it has one. Every label's values come from a list that is closed once the configuration
//! is read: routes, wire formats, names of this program. No model, path, tenant or text is ever one.

mod labels;
mod process;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::{encoding::text, registry::Registry};

use self::labels::{Counts, Level, Pressure, Seconds, Tokens, Total};
use super::{error::Error, events::Line};
use crate::compact::{Rung, digest::Tally};

/// What `plimsoll metrics` lists.
pub struct Entry {
    pub name: &'static str,
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

macro_rules! metrics {
    ($($help:literal $field:ident: $kind:ident = $name:literal [$($label:literal),*];)*) => {
        pub struct Metrics {
            registry: Registry,
            /// Exchanges that agents may know to be over, and that are not counted yet.
            pub unsettled: AtomicUsize,
            $(pub $field: $kind,)*
        }

        /// Every metric there is.
        pub const CATALOGUE: &[Entry] = &[$(Entry { name: $name, kind: $kind::KIND, labels: &[$($label),*], help: $help },)*];

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::default();
                $(
                    let $field = $kind::new(&[$($label),*]);
                    // The suffix of a counter and the full stop of a help text are put there by the registry.
                    let (name, help) = ($name.trim_end_matches("_total"), $help.trim_end_matches('.'));
                    registry.register(name, help, $field.family.clone());
                )*
                let metrics = Metrics { registry, unsettled: AtomicUsize::new(0), $($field,)* };
                metrics.begin();
                metrics
            }
        }
    };
}

metrics! {
    "Which version runs; always 1."
        build: Level = "plimsoll_build_info" ["version"];
    "Exchanges that ended, by how: \"complete\", or the name of what went wrong."
        exchanges: Counts = "plimsoll_exchanges_total" ["route", "format", "status", "end"];
    "Exchanges that are running."
        in_flight: Level = "plimsoll_exchanges_in_flight" [];
    "Connections of agents that are open."
        connections: Level = "plimsoll_connections" [];
    "Connections of agents that could not be accepted, for lack of file descriptors most likely."
        accept_errors: Counts = "plimsoll_accept_errors_total" [];
    "1 from SIGTERM on, 2 once the grace period is over."
        draining: Level = "plimsoll_draining" [];
    "Bytes of bodies: of requests as received and as sent on, of answers."
        bytes: Counts = "plimsoll_body_bytes_total" ["part"];
    "Time between the last byte of a chat request and the asking of upstream: what the proxy adds."
        added: Seconds = "plimsoll_added_seconds" [];
    "Time from the first byte of a request to the head of its answer."
        first_byte: Seconds = "plimsoll_first_byte_seconds" ["format"];
    "Duration of chat exchanges."
        duration: Seconds = "gen_ai_client_operation_duration_seconds" ["gen_ai_operation_name", "gen_ai_provider_name", "error_type"];
    "Time to the first byte of streamed chat answers."
        first_chunk: Seconds = "gen_ai_client_operation_time_to_first_chunk_seconds" ["gen_ai_operation_name", "gen_ai_provider_name"];
    "Tokens of chat exchanges, as the provider counts."
        usage: Tokens = "gen_ai_client_token_usage" ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_token_type"];
    "Tokens as the provider counts: \"input\", of these \"cached\" (read from its prompt cache), and \"output\"."
        provider_tokens: Counts = "plimsoll_provider_tokens_total" ["kind"];
    "Tokens of the prompts that were counted, as received and as sent, by our own count."
        prompt_tokens: Counts = "plimsoll_prompt_tokens_total" ["stage"];
    "Tokens that were received and did not have to be sent, by our own count."
        saved: Counts = "plimsoll_tokens_saved_total" [];
    "Share of the window that is taken by what is sent."
        pressure: Pressure = "plimsoll_pressure" [];
    "Compactions, by what made them due."
        compactions: Counts = "plimsoll_compactions_total" ["trigger"];
    "Rungs that took part in compactions."
        rungs: Counts = "plimsoll_rungs_total" ["rung"];
    "Records that digests were made of: \"written\", or \"left_out\" for want of room, which is evidence that the model no longer sees."
        records: Counts = "plimsoll_digest_records_total" ["kind", "outcome"];
    "Calls to summary models, by whether a summary came of them: \"kept\", or \"wasted\"."
        summary_calls: Counts = "plimsoll_summary_calls_total" ["outcome"];
    "Tokens of these calls, as the provider counts: \"input\", of these \"cached\", and \"output\"."
        summary_tokens: Counts = "plimsoll_summary_tokens_total" ["kind", "outcome"];
    "Summaries that were asked for, by how that ended: \"kept\", or why the digest serves instead."
        summaries: Counts = "plimsoll_summaries_total" ["end"];
    "Requests in which an earlier compaction was applied again, to the same bytes."
        reapplied: Counts = "plimsoll_epochs_reapplied_total" [];
    "Requests that upstream refused as too long."
        overflows: Counts = "plimsoll_overflows_total" [];
    "Second requests: \"harder\" after an overflow, \"original\" after another refusal of an edited request; and whether they were answered."
        retries: Counts = "plimsoll_retries_total" ["kind", "outcome"];
    "Requests that went on as they came because something of ours failed."
        fail_opens: Counts = "plimsoll_fail_opens_total" ["cause"];
    "Requests that went on as they came because they were meant to."
        passes: Counts = "plimsoll_passes_total" ["cause"];
    "Look-ups in the ledger: found in \"memory\", in the \"store\", or a \"miss\"."
        lookups: Counts = "plimsoll_ledger_lookups_total" ["outcome"];
    "Entries of the ledger in memory."
        entries: Level = "plimsoll_ledger_entries" [];
    "1 while the ledger's store (disk, Redis) answers; 0 while memory serves alone. 1 where there is none."
        store_up: Level = "plimsoll_ledger_store_up" [];
    "What the ledger's store was asked, and how that ended."
        store: Counts = "plimsoll_ledger_store_operations_total" ["operation", "outcome"];
    "When the certificates end that agents (\"server\") and providers (\"client\") are shown, in seconds since 1970; 0 where there are none."
        certificates: Level = "plimsoll_certificate_expiry_timestamp_seconds" ["use"];
    "Spans of traces: \"exported\", \"dropped\" because too many waited, or \"failed\" because the collector did not take them."
        spans: Counts = "plimsoll_spans_total" ["outcome"];
    "Times the configuration was read again: \"applied\", or \"refused\" and the old one kept."
        loads: Counts = "plimsoll_configuration_loads_total" ["outcome"];
    "1 unless the configuration on disk was refused and an older one runs."
        valid: Level = "plimsoll_configuration_valid" [];
    "When the running configuration was applied, in seconds since 1970."
        loaded: Level = "plimsoll_configuration_loaded_timestamp_seconds" [];
    "Processor time of this process."
        cpu: Total = "process_cpu_seconds_total" [];
    "Memory of this process."
        memory: Level = "process_resident_memory_bytes" [];
    "File descriptors that are open."
        open_fds: Level = "process_open_fds" [];
    "File descriptors that may be open."
        max_fds: Level = "process_max_fds" [];
    "When this process started, in seconds since 1970."
        start: Level = "process_start_time_seconds" [];
}

/// What `draining` says while what still runs is cut.
pub const OVERDUE: i64 = 2;

/// Causes of a pass that are nobody's failure.
const MEANT: [&str; 9] =
    ["off", "shadow", "window_unknown", "provider_held", "agent_compacts", "provider_compacts", "probe", "one_text", "not_a_conversation"];

impl Metrics {
    /// Alerts compare with what was before, so what they look at is there from the start.
    fn begin(&self) {
        self.build.of(&[env!("CARGO_PKG_VERSION")]).set(1);
        self.start.of(&[]).set(now());
        self.valid.of(&[]).set(1);
        self.store_up.of(&[]).set(1);
        self.loaded.of(&[]).set(now());
        for level in [&self.in_flight, &self.connections, &self.draining, &self.entries, &self.memory, &self.open_fds, &self.max_fds] {
            level.of(&[]);
        }
        for counts in [&self.saved, &self.reapplied, &self.overflows, &self.accept_errors] {
            counts.of(&[]);
        }
        let each = |counts: &Counts, values: &[&'static str]| values.iter().for_each(|value| drop(counts.of(&[value])));
        each(&self.bytes, &["received", "sent", "answered"]);
        each(&self.provider_tokens, &["input", "cached", "output"]);
        each(&self.prompt_tokens, &["received", "sent"]);
        each(&self.compactions, &["hygiene", "preflight", "overflow", "bytes", "manual"]);
        each(&self.fail_opens, &["panic", "undecodable", "ambiguous", "unreadable_rewrite"]);
        each(&self.passes, &MEANT);
        each(&self.rungs, &Rung::ALL.map(Rung::name));
        each(&self.summary_calls, &["kept", "wasted"]);
        each(&self.summaries, &["kept"]);
        ["server", "client"].iter().for_each(|purpose| drop(self.certificates.of(&[purpose])));
        for outcome in ["kept", "wasted"] {
            ["input", "cached", "output"].iter().for_each(|kind| drop(self.summary_tokens.of(&[kind, outcome])));
        }
        for outcome in ["written", "left_out"] {
            Tally::KINDS.iter().for_each(|kind| drop(self.records.of(&[kind, outcome])));
        }
        each(&self.lookups, &["memory", "store", "miss"]);
        each(&self.spans, &["exported", "dropped", "failed"]);
        each(&self.loads, &["applied", "refused"]);
        for kind in ["harder", "original"] {
            ["answered", "refused"].iter().for_each(|outcome| drop(self.retries.of(&[kind, outcome])));
        }
        for operation in ["get", "put"] {
            ["ok", "failed", "skipped"].iter().for_each(|outcome| drop(self.store.of(&[operation, outcome])));
        }
        self.added.of(&[]);
        self.pressure.of(&[]);
        self.cpu.of(&[]);
    }

    /// An exchange that is over.
    pub fn exchange(&self, line: &Line, took: Duration) {
        let status = match line.status.map_or(0, |status| status.as_u16() / 100) {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            5 => "5xx",
            _ => "none",
        };
        self.exchanges.of_route(&line.route.name, [line.format, status, line.end]).inc();
        let bytes = [("received", line.bytes_in.unwrap_or(0)), ("sent", line.bytes_sent.unwrap_or(0)), ("answered", line.bytes_out)];
        for (part, bytes) in bytes {
            self.bytes.of(&[part]).inc_by(bytes);
        }
        if let Some(first) = line.first {
            self.first_byte.of(&[line.format]).observe(first.as_secs_f64());
        }
        if line.format != "none" {
            self.chat(line, took);
        }
    }

    /// A request that was refused before it was known where it would go.
    pub fn refused(&self, error: &Error) {
        let status = if error.status().is_server_error() { "5xx" } else { "4xx" };
        self.exchanges.of(&["none", "none", status, error.name()]).inc();
    }

    fn chat(&self, line: &Line, took: Duration) {
        let (report, provider) = (&line.report, line.provider);
        let status = line.status.map_or(0, |status| status.as_u16());
        let error = match line.end {
            "complete" if status < 400 => "",
            "complete" if status == 429 => "429",
            "complete" if status < 500 => "4xx",
            "complete" => "5xx",
            end => end,
        };
        self.duration.of(&["chat", provider, error]).observe(took.as_secs_f64());
        if let Some(first) = line.first.filter(|_| report.stream) {
            self.first_chunk.of(&["chat", provider]).observe(first.as_secs_f64());
        }
        if let Some(added) = line.added {
            self.added.of(&[]).observe(added.as_secs_f64());
        }
        if let Some(usage) = line.usage {
            let kinds = [("input", usage.input), ("output", usage.output), ("cached", usage.cached)];
            for (kind, tokens) in kinds.into_iter().filter_map(|(kind, tokens)| Some((kind, tokens?))) {
                self.provider_tokens.of(&[kind]).inc_by(tokens);
                if kind != "cached" {
                    self.usage.of(&["chat", provider, kind]).observe(tokens as f64);
                }
            }
        }
        if let Some((before, after)) = report.tokens {
            self.prompt_tokens.of(&["received"]).inc_by(before);
            self.prompt_tokens.of(&["sent"]).inc_by(if report.edited { after } else { before });
            if report.edited {
                self.saved.of(&[]).inc_by(before.saturating_sub(after));
            }
        }
        if let Some(pressure) = report.pressure() {
            self.pressure.of(&[]).observe(pressure);
        }
        match report.trigger.filter(|_| report.edited) {
            Some("ledger") => {
                self.reapplied.of(&[]).inc();
            }
            Some(trigger) => {
                self.compactions.of(&[trigger]).inc();
                for (outcome, tally) in [("written", report.records.written), ("left_out", report.records.left_out)] {
                    for (kind, count) in Tally::KINDS.iter().zip(tally.counts()) {
                        self.records.of(&[kind, outcome]).inc_by(count as u64);
                    }
                }
                for rung in &report.rungs {
                    self.rungs.of(&[rung]).inc();
                }
            }
            None => {}
        }
        if line.overflow.is_some() {
            self.overflows.of(&[]).inc();
        }
        if let Some(kind) = line.retried {
            self.retries.of(&[kind, if (1..400).contains(&status) { "answered" } else { "refused" }]).inc();
        }
        if let Some(cause) = report.cause {
            let counts = if MEANT.contains(&cause) { &self.passes } else { &self.fail_opens };
            counts.of(&[cause]).inc();
        }
    }

    /// A configuration was read: applied, or refused.
    pub fn load(&self, applied: bool) {
        self.loads.of(&[if applied { "applied" } else { "refused" }]).inc();
        self.valid.of(&[]).set(applied.into());
        if applied {
            self.loaded.of(&[]).set(now());
        }
    }

    /// All of it, as OpenMetrics text.
    pub fn text(&self) -> String {
        let process = process::Process::now();
        self.cpu.of(&[]).inner().store(process.cpu.to_bits(), Ordering::Relaxed);
        self.memory.of(&[]).set(process.memory);
        self.open_fds.of(&[]).set(process.open_fds);
        self.max_fds.of(&[]).set(process.max_fds);
        let mut out = String::new();
        // Writing into a string cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// What OpenTelemetry calls the provider at `host`.
pub fn provider(host: &str) -> &'static str {
    const KNOWN: [(&str, &str); 12] = [
        ("api.openai.com", "openai"),
        ("chatgpt.com", "openai"),
        ("api.anthropic.com", "anthropic"),
        (".openai.azure.com", "azure.ai.openai"),
        (".amazonaws.com", "aws.bedrock"),
        ("generativelanguage.googleapis.com", "gcp.gemini"),
        ("aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("api.deepseek.com", "deepseek"),
        ("api.groq.com", "groq"),
        ("api.mistral.ai", "mistral_ai"),
        ("api.x.ai", "x_ai"),
        ("api.perplexity.ai", "perplexity"),
    ];
    KNOWN.iter().find(|(end, _)| host.ends_with(end)).map_or("_OTHER", |(_, name)| name)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}
