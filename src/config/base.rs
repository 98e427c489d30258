//! The base URL of an upstream.

use http::{Uri, uri::Authority};

/// Scheme, authority, path prefix and query of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Whether it is spoken to over TLS.
    pub secure: bool,
    pub authority: Authority,
    /// Empty, or beginning with a slash and not ending with one.
    pub prefix: String,
    /// Without its question mark.
    pub query: Option<String>,
}

impl Base {
    /// Reads a URL such as `https://openrouter.ai/api/v1`; the error says what would be accepted.
    pub fn parse(url: &str) -> Result<Base, &'static str> {
        let accepted = "a URL such as \"https://api.openai.com\" or \"http://127.0.0.1:8080/v1\"";
        let uri: Uri = url.parse().map_err(|_| accepted)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(accepted),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or(accepted)?.clone();
        if authority.as_str().contains('@') {
            return Err("a URL without user name or password; credentials come from the agent");
        }
        Ok(Base { secure, authority, prefix: uri.path().trim_end_matches('/').to_owned(), query: uri.query().map(str::to_owned) })
    }

    /// Host without brackets, as certificates name it.
    pub fn host(&self) -> &str {
        self.authority.host().trim_start_matches('[').trim_end_matches(']')
    }
}

impl std::fmt::Display for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}{}", if self.secure { "https" } else { "http" }, self.authority, self.prefix)?;
        self.query.iter().try_for_each(|query| write!(f, "?{query}"))
    }
}
