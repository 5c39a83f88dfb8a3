//! URLs of HTTP servers.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::PathAndQuery;

/// A URL that can't be used. The message never repeats the URL, which may hold a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.reason())]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a URL.
    Invalid,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// There is no host.
    MissingHost,
    /// The port is empty or not a number.
    Port,
    /// There is a user name or password.
    Credentials,
}

impl UrlError {
    /// Returns the message.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "not a valid URL",
            Self::Scheme => "scheme must be `http` or `https`",
            Self::MissingHost => "missing host",
            Self::Port => "invalid port",
            Self::Credentials => "credentials are not allowed in the URL",
        }
    }
}

/// An `http` or `https` URL. Its `Debug` output is its origin only: path and query may hold a token.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    https: bool,
    /// Without the brackets of IPv6.
    host: String,
    port: u16,
    authority: HeaderValue,
    target: PathAndQuery,
}

impl HttpUrl {
    /// Returns whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Returns the host name or address, without the brackets of IPv6.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, or the default port of the scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns scheme, host and port. Safe to show.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority.to_str().unwrap_or_default())
    }

    /// Returns the path. Many services have their token in it.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.path()
    }

    /// Returns the query. Many services have their token in it.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.target.query()
    }

    /// Returns path and query: the URI of a request to this URL.
    #[must_use]
    pub fn path_and_query(&self) -> Uri {
        self.target.clone().into()
    }

    /// Returns the value of the `Host` header.
    pub(super) fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl FromStr for HttpUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let text = text.split('#').next().unwrap_or(text);
        let uri: Uri = text.parse().map_err(|_| UrlError::Invalid)?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or(UrlError::MissingHost)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::Credentials);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(UrlError::MissingHost);
        }
        let port = match (authority.port(), authority.as_str().ends_with(']')) {
            (Some(port), _) => port.as_u16(),
            // `host:` and `host:port` are accepted by the parser.
            (None, false) if authority.as_str() != authority.host() => return Err(UrlError::Port),
            (None, _) if https => 443,
            (None, _) => 80,
        };
        let target = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self {
            https,
            host,
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| UrlError::Invalid)?,
            target,
        })
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpUrl").field(&self.origin()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_and_https_urls_are_parsed() {
        for (text, https, host, port, target) in [
            ("https://host.example", true, "host.example", 443, "/"),
            ("http://host.example:8080/a?b=c#d", false, "host.example", 8080, "/a?b=c"),
            ("https://[2001:db8::1]/x", true, "2001:db8::1", 443, "/x"),
            ("https://[2001:db8::1]:8443/x", true, "2001:db8::1", 8443, "/x"),
            ("HTTP://host.example/", false, "host.example", 80, "/"),
        ] {
            let url: HttpUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            let parsed = (url.is_https(), url.host(), url.port(), url.path_and_query().to_string());
            assert_eq!(parsed, (https, host, port, target.to_owned()), "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "ftp://host/x",
            "/x",
            "host",
            "https://",
            "https:///x",
            "https://me:word@host/x",
            "https://host\\@evil/x",
            "https://ho st/x",
            "https://host:port/x",
            "https://host:/x",
            "file:///etc/passwd",
            "https://host/\r\nX: y",
        ] {
            assert!(text.parse::<HttpUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn debug_output_has_no_path_and_no_query() {
        let url: HttpUrl = "https://host.example/secret?token=secret".parse().unwrap();
        assert_eq!(format!("{url:?}"), r#"HttpUrl("https://host.example")"#);
    }
}
