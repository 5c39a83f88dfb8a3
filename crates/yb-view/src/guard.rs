//! Access to the pages, which needs the token. Protects against other users of the machine, against other sites in the same
//! browser (CSRF), and against names that resolve to loopback (DNS rebinding).

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{COOKIE, HOST, ORIGIN};

use crate::address::Query;

/// The content security policy of every page.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The secret of one server.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    token: String,
    /// Cookies are shared by all ports of a host.
    cookie: String,
    loopback: bool,
}

/// The result of checking a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The request has the cookie.
    Granted,
    /// The request has the token in its address: it gets the cookie.
    Introduced,
    /// The request has neither, or a wrong one.
    Unknown,
    /// The request names another host, or comes from another site.
    Foreign,
}

impl Guard {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            token: uuid::Uuid::new_v4().simple().to_string(),
            cookie: format!("yb-view-{}", address.port()),
            loopback: address.ip().is_loopback(),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the hidden field of forms.
    pub(crate) fn form_token(&self) -> String {
        blake3::hash(format!("form {}", self.token).as_bytes()).to_hex().to_string()
    }

    /// Returns the value of `Set-Cookie`.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, self.token)
    }

    /// Checks a request by its headers and address.
    pub(crate) fn check(&self, headers: &HeaderMap, query: &Query) -> Access {
        let text =
            |name| headers.get(name).and_then(|value: &hyper::header::HeaderValue| value.to_str().ok());
        let Some(host) = text(HOST).filter(|host| self.is_own_host(host)) else { return Access::Foreign };
        // Browsers send it with every request that may change something, and with requests of scripts.
        if text(ORIGIN).is_some_and(|origin| origin != format!("http://{host}")) {
            return Access::Foreign;
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        if pairs.any(|(name, value)| name == self.cookie && same(value, &self.token)) {
            return Access::Granted;
        }
        match query.get("token") {
            Some(token) if same(token, &self.token) => Access::Introduced,
            _ => Access::Unknown,
        }
    }

    /// Checks a request that changes something: it must come from a form of our own.
    pub(crate) fn may_change(&self, headers: &HeaderMap, form: &Query) -> bool {
        headers.contains_key(ORIGIN) && form.get("form").is_some_and(|field| same(field, &self.form_token()))
    }

    /// A name other than `localhost` may be one that an attacker's DNS server resolves to this machine; an address can't.
    fn is_own_host(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        match name.parse::<IpAddr>() {
            Ok(address) => !self.loopback || address.is_loopback(),
            Err(_) => name == "localhost",
        }
    }
}

/// Compares without revealing in its duration how much is equal.
fn same(one: &str, two: &str) -> bool {
    let differences = one.bytes().zip(two.bytes()).fold(0, |all, (one, two)| all | (one ^ two));
    one.len() == two.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str) -> Guard {
        Guard { token: "secret".to_owned(), ..Guard::new(address.parse().unwrap()) }
    }

    fn check(guard: &Guard, headers: &[(&'static str, &str)], query: &str) -> Access {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        guard.check(&map, &Query::parse(query))
    }

    #[test]
    fn token_or_cookie_is_required() {
        let guard = guard("127.0.0.1:4000");
        let host = ("host", "127.0.0.1:4000");
        assert_eq!(check(&guard, &[host], ""), Access::Unknown);
        assert_eq!(check(&guard, &[host], "token=secre"), Access::Unknown);
        assert_eq!(check(&guard, &[host], "token=secret"), Access::Introduced);
        assert_eq!(check(&guard, &[host, ("cookie", "a=b; yb-view-4000=secret")], ""), Access::Granted);
        assert_eq!(check(&guard, &[host, ("cookie", "yb-view-4001=secret")], ""), Access::Unknown);
        assert_eq!(check(&guard, &[host, ("cookie", "yb-view-4000=other")], ""), Access::Unknown);
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let guard = guard("127.0.0.1:4000");
        let cookie = ("cookie", "yb-view-4000=secret");
        for host in
            ["evil.example", "127.0.0.1.evil.example:4000", "192.168.1.7:4000", "localhost.evil.example", ""]
        {
            assert_eq!(check(&guard, &[("host", host), cookie], ""), Access::Foreign, "{host}");
        }
        assert_eq!(check(&guard, &[cookie], "token=secret"), Access::Foreign, "no host");
        for host in ["127.0.0.1:4000", "localhost:9", "[::1]:4000"] {
            assert_eq!(check(&guard, &[("host", host), cookie], ""), Access::Granted, "{host}");
        }
        let host = ("host", "localhost:4000");
        for origin in ["http://evil.example", "null", "https://localhost:4000", "http://localhost:4001"] {
            assert_eq!(check(&guard, &[host, cookie, ("origin", origin)], ""), Access::Foreign, "{origin}");
        }
        assert_eq!(check(&guard, &[host, cookie, ("origin", "http://localhost:4000")], ""), Access::Granted);
    }

    #[test]
    fn other_addresses_are_allowed_only_when_listening_on_them() {
        let host = ("host", "192.168.1.7:4000");
        assert_eq!(check(&guard("0.0.0.0:4000"), &[host], "token=secret"), Access::Introduced);
        assert_eq!(
            check(&guard("0.0.0.0:4000"), &[("host", "evil.example")], "token=secret"),
            Access::Foreign
        );
    }

    #[test]
    fn forms_need_their_own_token() {
        let guard = guard("127.0.0.1:4000");
        let mut headers = HeaderMap::new();
        let form = Query::parse(&format!("form={}", guard.form_token()));
        assert!(!guard.may_change(&headers, &form), "no origin");
        headers.insert("origin", "http://127.0.0.1:4000".parse().unwrap());
        assert!(guard.may_change(&headers, &form));
        assert!(!guard.may_change(&headers, &Query::parse("form=secret")));
    }
}
