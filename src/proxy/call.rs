//! What a request is, before its body is read.

use std::sync::Arc;

use http::{Extensions, HeaderMap, Method, Version, header::AUTHORIZATION, request::Parts, uri::PathAndQuery};

use super::{
    access::Access,
    decide::{Incoming, Tenant},
    discover::{Inquiry, Windows},
    error::Error,
    headers,
    routes::{Route, Routes},
    steer::Steering,
    target,
    traces::Trace,
};
use crate::{decide::Steer, wire::Format};

pub struct Call {
    pub method: Method,
    /// What upstream is asked for.
    pub target: PathAndQuery,
    /// With the credential that upstream is to see.
    pub headers: HeaderMap,
    pub extensions: Extensions,
    pub route: Arc<Route>,
    /// The API that the path names, in whose words errors are told.
    pub format: Option<Format>,
    /// The format to read the body in; nothing where it passes unread.
    pub reads: Option<Format>,
    pub steer: Steering,
    pub tenant: Tenant,
    pub is_upgrade: bool,
    pub takes_trailers: bool,
    /// That it is recorded in; set by whoever records.
    pub trace: Option<Trace>,
}

impl Call {
    /// Refused for a target that cannot be asked for upstream, or from an agent that may not ask. `key` is what tenants are hashed with.
    pub fn of(mut request: Parts, routes: &Routes, access: &Access, key: &[u8; 32]) -> Result<Call, (Error, Option<Format>)> {
        if request.version == Version::HTTP_2 {
            headers::join_cookies(&mut request.headers);
        }
        let path = request.uri.path();
        let (route, rest) = routes.of(path, &request.headers);
        let chat = route.format.of(path);
        let format = chat.or_else(|| Format::of_path(path));
        let refused = |error: Error| (error, format);
        if headers::is_coded(&request.headers) {
            return Err(refused(Error::Malformed));
        }
        let admitted = access.admit(&request.headers, request.uri.query(), key).map_err(refused)?;
        let steer = match Steering::of(&request.headers) {
            Err(unclear) if format.is_some() => return Err(refused(Error::Unclear(unclear))),
            steer => steer.unwrap_or_default(),
        };
        // A body under a SigV4 signature cannot be changed by anybody.
        let signed = request.headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS4-HMAC"));
        let reads = request.method == Method::POST && !signed && steer.compact != Steer::Off;
        Ok(Call {
            target: target::join(&route.pool.base, rest, request.uri.query()).map_err(|_| refused(Error::Malformed))?,
            format,
            reads: chat.filter(|_| reads),
            steer,
            tenant: admitted.tenant,
            is_upgrade: headers::is_upgrade(&request.headers),
            takes_trailers: headers::takes_trailers(&request.headers),
            trace: None,
            route: route.clone(),
            method: request.method,
            headers: admitted.headers(request.headers, route.credential.as_ref()),
            extensions: request.extensions,
        })
    }

    /// What is still to be known of the call while its answer streams, which may be for minutes.
    pub fn without_head(&self) -> Call {
        Call {
            method: self.method.clone(),
            target: PathAndQuery::from_static("/"),
            headers: HeaderMap::new(),
            extensions: Extensions::new(),
            route: self.route.clone(),
            steer: self.steer.clone(),
            trace: None,
            ..*self
        }
    }

    /// The call as compaction sees it.
    pub fn incoming<'a>(&'a self, format: Format, body: &'a bytes::Bytes, windows: &'a Arc<Windows>) -> Incoming<'a> {
        Incoming {
            format,
            body,
            tenant: self.tenant,
            upstream: self.route.pool.base.authority.as_str(),
            inquiry: Inquiry { windows, pool: &self.route.pool, headers: &self.headers },
            policies: &self.route.policies,
            steer: &self.steer,
            target: &self.target,
            extensions: &self.extensions,
            trace: self.trace.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &str, uri: &str, pairs: &[(&'static str, &'static str)]) -> Option<Call> {
        let routes = Routes::new(&crate::config::Config::default(), None).unwrap();
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        Call::of(request.body(()).unwrap().into_parts().0, &routes, &Access::default(), &[7; 32]).ok()
    }

    #[test]
    fn only_unsigned_posts_to_chat_paths_are_read() {
        let reads = |method: &str, uri: &str, pairs: &[(&'static str, &'static str)]| call(method, uri, pairs).unwrap().reads;
        assert_eq!(reads("POST", "/v1/messages?beta=true", &[]), Some(Format::Messages));
        assert_eq!(reads("POST", "/responses", &[]), Some(Format::Responses));
        assert_eq!(reads("GET", "/v1/chat/completions", &[]), None);
        assert_eq!(reads("POST", "/v1/messages/count_tokens", &[]), None);
        assert_eq!(reads("POST", "/v1/responses/compact", &[]), None);
        assert_eq!(reads("POST", "/v1/messages", &[("authorization", "AWS4-HMAC-SHA256 Credential=x")]), None);
        assert_eq!(reads("POST", "/v1/messages", &[("x-plimsoll-compact", "off")]), None);
    }

    #[test]
    fn the_agent_cannot_choose_the_upstream() {
        for uri in ["http://evil.example/v1/chat/completions", "/v1/chat/completions"] {
            let call = call("POST", uri, &[("host", "evil.example"), ("x-forwarded-host", "evil.example")]).unwrap();
            assert_eq!((call.route.pool.base.authority.as_str(), call.target.as_str()), ("api.openai.com", "/v1/chat/completions"));
        }
        assert_eq!(call("GET", "//evil.example/v1/models", &[]).unwrap().target.as_str(), "//evil.example/v1/models");
    }
}
