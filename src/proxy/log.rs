//! The log: our own events only, one line each, for people on a terminal and as JSON otherwise.
//!
//! Libraries below us log bytes and headers at their lower levels, so nothing of theirs is ever written, whatever the level.

use std::{
    fmt::{self, Write as _},
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    panic,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use serde_json::Value;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, Registry, filter::Targets, layer::Context, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::config::{self, Log, LogFormat};

/// Where lines go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Output,
    /// Where standard output is somebody else's.
    Error,
}

impl Stream {
    /// The stream without its lock and buffer: a line is written at once and in one piece, and nobody waits for somebody else's.
    fn file(self) -> io::Result<File> {
        let stream = match self {
            Stream::Output => io::stdout().as_fd().try_clone_to_owned(),
            Stream::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        stream.map(File::from)
    }
}

/// Writes the log to `stream` from now on. A panic becomes a line too, with its place and without its words, which could quote anything.
pub fn init(log: &Log, stream: Stream) {
    let human = match log.format {
        LogFormat::Auto if stream == Stream::Error => io::stderr().is_terminal(),
        LogFormat::Auto => io::stdout().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (filter, handle) = reload::Layer::new(ours(log.level));
    if tracing_subscriber::registry().with(Lines { human, file: stream.file() }.with_filter(filter)).try_init().is_ok() {
        drop(FILTER.set(handle));
    }
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(|place| format!("{}:{}", place.file(), place.line()));
        tracing::error!(place, "panic");
    }));
}

/// What decides which lines there are, once there is a log.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Writes lines of this level and above from now on. Does nothing where there is no log.
pub fn set_level(level: config::Level) {
    if let Some(filter) = FILTER.get() {
        drop(filter.reload(ours(level)));
    }
}

fn ours(level: config::Level) -> Targets {
    let level = match level {
        config::Level::Off => LevelFilter::OFF,
        config::Level::Error => LevelFilter::ERROR,
        config::Level::Warn => LevelFilter::WARN,
        config::Level::Info => LevelFilter::INFO,
        config::Level::Debug => LevelFilter::DEBUG,
        config::Level::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_target("plimsoll", level)
}

struct Lines {
    human: bool,
    file: io::Result<File>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = *event.metadata().level();
        let line = if self.human {
            let mut fields = Fields::default();
            event.record(&mut fields);
            human(now, level, &fields)
        } else {
            let mut members = Members::default();
            event.record(&mut members);
            json(now, level, &members)
        };
        // Nothing can be done about a log that cannot be written.
        drop(self.file.as_ref().map(|mut file| file.write_all(&line)));
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => drop(write!(self.message, "{value:?}")),
            _ => self.put(field, format!("{value:?}").into()),
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

/// Fields as the members of a JSON object, written as they come: this is done for every exchange.
struct Members {
    message: String,
    /// Each with a comma before it.
    others: Vec<u8>,
}

impl Default for Members {
    fn default() -> Self {
        Members { message: String::new(), others: Vec::with_capacity(512) }
    }
}

impl Members {
    fn put(&mut self, name: &str, value: impl Serialize) {
        self.others.extend_from_slice(b",\"");
        self.others.extend_from_slice(name.as_bytes());
        self.others.extend_from_slice(b"\":");
        // Writing to memory does not fail, and neither does any value that a field can have.
        drop(serde_json::to_writer(&mut self.others, &value));
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => drop(write!(self.message, "{value:?}")),
            _ => self.put(field.name(), format!("{value:?}")),
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value);
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value);
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value);
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value);
    }
}

fn json(now: Duration, level: Level, members: &Members) -> Vec<u8> {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let mut line = Vec::with_capacity(members.others.len() + 128);
    for piece in [r#"{"time":""#, &timestamp(now), r#"","level":""#, level, r#"","message":"#] {
        line.extend_from_slice(piece.as_bytes());
    }
    drop(serde_json::to_writer(&mut line, &members.message));
    line.extend_from_slice(&members.others);
    line.extend_from_slice(b"}\n");
    line
}

fn human(now: Duration, level: Level, fields: &Fields) -> Vec<u8> {
    let colour = match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        _ => "\x1b[34m",
    };
    let time = timestamp(now);
    let mut line = format!("\x1b[2m{}\x1b[0m {colour}{level:>5}\x1b[0m {}", &time[11..19], fields.message);
    for (name, value) in &fields.others {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = write!(line, " \x1b[2m{name}=\x1b[0m{}", value.escape_debug());
    }
    line.push('\n');
    line.into_bytes()
}

/// RFC 3339, in UTC, with milliseconds.
fn timestamp(now: Duration) -> String {
    let (days, second) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
    // Howard Hinnant's civil_from_days, for days after 1970.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    // Digit by digit: this is done for every exchange.
    let mut out = String::with_capacity("2000-01-01T00:00:00.000Z".len());
    let numbers = [
        (year, 1000, '-'),
        (month, 10, '-'),
        (day, 10, 'T'),
        (second / 3600, 10, ':'),
        (second / 60 % 60, 10, ':'),
        (second % 60, 10, '.'),
        (now.subsec_millis().into(), 100, 'Z'),
    ];
    for (number, mut place, behind) in numbers {
        while place > 0 {
            out.push(char::from(b'0' + (number / place % 10) as u8));
            place /= 10;
        }
        out.push(behind);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everybody_reads_them() {
        let check = |seconds: u64, wanted: &str| assert_eq!(timestamp(Duration::from_millis(seconds * 1000 + 7)), wanted);
        check(0, "1970-01-01T00:00:00.007Z");
        check(951_782_400, "2000-02-29T00:00:00.007Z");
        check(1_796_009_045, "2026-11-30T03:24:05.007Z");
    }

    #[test]
    fn a_line_is_one_line_in_both_spellings() {
        let others = vec![("cause", Value::from("a\nb")), ("ms", 1.5.into())];
        let fields = Fields { message: "exchange".into(), others };
        let mut members = Members { message: "exchange".into(), ..Members::default() };
        fields.others.iter().for_each(|(name, value)| members.put(name, value));
        for line in [json(Duration::ZERO, Level::INFO, &members), human(Duration::ZERO, Level::WARN, &fields)] {
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(line.contains("exchange") && line.contains("a\\nb") && line.contains("1.5"), "{line}");
        }
    }
}
