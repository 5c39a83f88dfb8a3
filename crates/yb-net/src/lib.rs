//! A small HTTP/1.1 client with TLS, host policies and pinned addresses.
//!
//! The client does nothing on its own initiative: it follows no redirects, reads no proxy variables, stores no cookies
//! and keeps no connections. A caller resolves a host, checks the addresses against a [`HostPolicy`], and connects to
//! exactly these addresses.
//!
//! - [`policy`]: name resolution, and which addresses may be reached.
//! - [`tls`]: client-side TLS with rustls and graviola, which needs no C compiler.
//! - [`http`]: URLs, connections, requests and streamed responses.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use hyper::Request;
//! use yb_net::http::{HttpConnector, HttpUrl, read_body};
//! use yb_net::policy::HostPolicy;
//! use yb_net::tls::{Roots, Tls};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let url: HttpUrl = "https://example.org/status".parse()?;
//! let connector = HttpConnector::new(HostPolicy::PublicOnly, Duration::from_secs(10))
//!     .with_tls(Tls::new(&Roots::System)?);
//! let mut connection = connector.connect(&url).await?;
//! let request = Request::get(url.path_and_query()).body(Bytes::new())?;
//! let response = connection.send(request).await?;
//! let body = read_body(response.into_body(), 8 * 1024).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`HostPolicy`]: policy::HostPolicy

pub mod http;
pub mod policy;
pub mod tls;
