//! What is left to be done for an exchange when the agent has its answer: its usage is read, compaction learns of it, and its line is written. The
//! agent need not wait for any of that.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};

use bytes::Bytes;

use super::{Proxy, call::Call, events::Line, tap::Tap};

/// Done when it is dropped.
pub struct Settlement {
    proxy: Arc<Proxy>,
    call: Arc<Call>,
    tap: Option<Tap>,
    line: Option<Box<Line>>,
}

impl Settlement {
    pub fn new(proxy: Arc<Proxy>, call: Arc<Call>, tap: Option<Tap>, line: Box<Line>) -> Self {
        proxy.metrics.unsettled.fetch_add(1, Ordering::Relaxed);
        Settlement { proxy, call, tap, line: Some(line) }
    }

    /// Tells compaction what upstream counted.
    fn learn(&self, tap: &mut Tap, line: &mut Line) {
        line.usage = tap.usage();
        if let Some(format) = self.call.reads {
            // The body is long gone; what is to be known of it stands in the report.
            let body = Bytes::new();
            let incoming = self.call.incoming(format, &body, &self.proxy.windows);
            self.proxy.decide.learn(&incoming, &line.report, line.usage);
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        if let Some(mut tap) = self.tap.take() {
            // The line is written in any case, and a panic while something else unwinds would end the process.
            drop(catch_unwind(AssertUnwindSafe(|| self.learn(&mut tap, &mut line))));
        }
        drop(line);
        self.proxy.metrics.unsettled.fetch_sub(1, Ordering::Release);
    }
}
