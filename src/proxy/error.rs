//! Errors of our own, as the agent reads them.
//!
//! They are JSON in the wire format of the API that was called, and name nothing the agent sent. Where upstream cannot be reached they say why; which host
//! and port that is stands in the log, because agents of a gateway have no business with its inside.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    response::Parts,
};

use super::steer::Unclear;
use crate::wire::Format;

/// Why an exchange ends without an answer from upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No connection to this host and port could be made, and the kind of cause.
    Unreachable { at: String, why: &'static str },
    /// Upstream took the connection and closed it before it answered.
    Closed,
    /// What upstream said is not HTTP.
    Garbled,
    /// Nobody answered the knock at this host and port in time.
    ConnectTimeout(String),
    /// The head of the answer did not come in time.
    ResponseTimeout,
    /// The agent stopped in the middle of its request.
    RequestTimeout,
    /// A chat request over the limit, in bytes.
    TooLarge(u64),
    /// A WebSocket on a chat path.
    UpgradeRefused,
    /// A CONNECT: the agent does not choose where its requests go.
    NoTunnel,
    /// The request line or a header makes no sense.
    Malformed,
    /// One of our own headers says nothing that can be meant.
    Unclear(Unclear),
    /// Compaction may not let it pass (`strict`).
    Refused(String),
    /// No token of ours, where one is needed.
    Unauthorized,
    /// As much runs as may run at once.
    Busy,
    /// As much runs as this tenant may run, or as often as it may ask; it may ask again after so many seconds.
    TenantBusy { seconds: u64 },
    /// The connection of the agent broke while it sent its request.
    AgentGone,
}

impl Error {
    pub fn status(&self) -> StatusCode {
        match self {
            Error::Unreachable { .. } | Error::Closed | Error::Garbled => StatusCode::BAD_GATEWAY,
            Error::ConnectTimeout(_) | Error::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            Error::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Error::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::UpgradeRefused => StatusCode::UPGRADE_REQUIRED,
            Error::NoTunnel => StatusCode::METHOD_NOT_ALLOWED,
            Error::Malformed | Error::Unclear(_) | Error::Refused(_) | Error::AgentGone => StatusCode::BAD_REQUEST,
            Error::Unauthorized => StatusCode::UNAUTHORIZED,
            Error::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Error::TenantBusy { .. } => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Error::Unreachable { .. } => "upstream_unreachable",
            Error::Closed => "upstream_closed",
            Error::Garbled => "upstream_garbled",
            Error::ConnectTimeout(_) => "connect_timeout",
            Error::ResponseTimeout => "response_timeout",
            Error::RequestTimeout => "request_timeout",
            Error::TooLarge(_) => "too_large",
            Error::UpgradeRefused => "upgrade_refused",
            Error::NoTunnel => "no_tunnel",
            Error::Malformed => "malformed",
            Error::Unclear(_) => "unclear_header",
            Error::Refused(_) => "refused",
            Error::Unauthorized => "unauthorized",
            Error::Busy => "busy",
            Error::TenantBusy { .. } => "tenant_busy",
            Error::AgentGone => "agent_gone",
        }
    }

    fn message(&self) -> String {
        match self {
            Error::Unreachable { why, .. } => format!("plimsoll: the upstream API cannot be reached: {why} (the proxy's log says where)"),
            Error::Closed => "plimsoll: the upstream API closed the connection before it answered".into(),
            Error::Garbled => "plimsoll: the answer of the upstream API is not HTTP".into(),
            Error::ConnectTimeout(_) => {
                "plimsoll: no connection to the upstream API within the connect timeout (the proxy's log says where)".into()
            }
            Error::ResponseTimeout => "plimsoll: no answer from the upstream API within the response timeout".into(),
            Error::RequestTimeout => "plimsoll: the request body stopped for longer than the idle timeout".into(),
            Error::TooLarge(limit) => format!("plimsoll: the request body is over the proxy's own limit of {limit} bytes (max_chat_bytes)"),
            Error::UpgradeRefused => "plimsoll: no WebSocket on this path; use HTTP".into(),
            Error::NoTunnel => "plimsoll: this is not a forward proxy; use it as the base URL".into(),
            Error::Malformed | Error::AgentGone => "plimsoll: the request is malformed".into(),
            Error::Unclear(Unclear { header, accepted }) => format!("plimsoll: {header} is not accepted; expected {accepted}"),
            Error::Unauthorized => "plimsoll: no token of this proxy; agents need one here".into(),
            Error::Busy => "plimsoll: the proxy itself is at its limit; try again in a moment".into(),
            Error::TenantBusy { seconds } => format!("plimsoll: the limit of this tenant is reached; try again in {seconds} s"),
            Error::Refused(message) => message.clone(),
        }
    }

    /// Where no connection could be made, and why.
    pub fn unreached(&self) -> Option<(&str, &'static str)> {
        match self {
            Error::Unreachable { at, why } => Some((at, why)),
            Error::ConnectTimeout(at) => Some((at, "no answer within the connect timeout")),
            _ => None,
        }
    }

    /// What APIs call an error of this kind.
    fn kind(&self) -> &'static str {
        match self.status().as_u16() {
            401 => "authentication_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        }
    }

    /// Head and body for a client of `format`; where that is unknown, in OpenAI's shape, which most clients read.
    pub fn answer(&self, format: Option<Format>) -> (Parts, Bytes) {
        let (mut head, ()) = Response::new(()).into_parts();
        let body = format.unwrap_or(Format::Chat).error_body(self.kind(), &self.message());
        head.status = self.status();
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        match self {
            Error::Busy => drop(head.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
            Error::TenantBusy { seconds } => drop(head.headers.insert(RETRY_AFTER, HeaderValue::from(*seconds))),
            Error::Unauthorized => drop(head.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            _ => {}
        }
        (head, body.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_json_in_the_shape_of_the_api_that_was_called() {
        let refused = Error::Refused("prompt is too long".into());
        for error in [
            Error::Unreachable { at: "h:1".into(), why: "connection refused" },
            Error::ConnectTimeout("h:1".into()),
            Error::TooLarge(5),
            Error::UpgradeRefused,
            Error::Malformed,
            Error::Unclear(Unclear { header: "x-plimsoll-window", accepted: "a number" }),
            Error::Unauthorized,
            Error::Busy,
            refused,
        ] {
            for format in Format::ALL.map(Some).into_iter().chain([None]) {
                let (head, body) = error.answer(format);
                assert!(head.status.as_u16() >= 400);
                let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert!(!json["error"]["message"].as_str().unwrap().is_empty() && json["error"]["type"].is_string());
                assert_eq!(json["type"] == "error", format == Some(Format::Messages));
            }
        }
    }
}
