//! A client for registries of images: manifests and blobs, anonymous or with a token, every digest verified.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::header::{ACCEPT, AUTHORIZATION, LOCATION, USER_AGENT, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode, body::Incoming};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use yb_net::http::{HttpConnection, HttpConnector, HttpUrl, read_body};
use yb_net::policy::HostPolicy;
use yb_net::tls::{Roots, Tls};

use crate::ImageError;
use crate::reference::Reference;
use crate::unpack::digest_of;

const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
/// The largest manifest.
pub(crate) const MAX_MANIFEST: usize = 8 << 20;
const MAX_REDIRECTS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(30);

/// A registry.
pub(crate) struct Registry<'a> {
    reference: &'a Reference,
    connector: HttpConnector,
    token: Option<String>,
}

impl<'a> Registry<'a> {
    pub(crate) fn new(reference: &'a Reference, hosts: HostPolicy) -> Result<Self, ImageError> {
        let tls = Tls::new(&Roots::from_env(|name| std::env::var(name).ok()));
        let tls = tls.map_err(|error| ImageError::Registry {
            registry: reference.host.clone(),
            reason: error.to_string(),
        })?;
        let connector = HttpConnector::new(hosts, TIMEOUT).with_tls(tls);
        Ok(Self { reference, connector, token: None })
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors are passed as they are")]
    fn error(&self, reason: impl ToString) -> ImageError {
        ImageError::Registry { registry: self.reference.host.clone(), reason: reason.to_string() }
    }

    /// Fetches a manifest by tag or digest, and returns it with its digest.
    pub(crate) async fn manifest(&mut self, name: &str) -> Result<(Vec<u8>, String), ImageError> {
        let path = format!("/v2/{}/manifests/{name}", self.reference.repository);
        let (response, _connection) = self.get(&path, MANIFESTS).await?;
        let bytes = read_body(response.into_body(), MAX_MANIFEST).await;
        let found = digest_of(Sha256::new_with_prefix(&bytes));
        if name.starts_with("sha256:") && name != found {
            return Err(ImageError::Digest { what: "manifest".to_owned(), wanted: name.to_owned(), found });
        }
        Ok((bytes, found))
    }

    /// Fetches a blob into a file, and verifies its digest.
    pub(crate) async fn blob(&mut self, digest: &str, to: &Path) -> Result<(), ImageError> {
        let path = format!("/v2/{}/blobs/{digest}", self.reference.repository);
        let (response, _connection) = self.get(&path, "*/*").await?;
        let mut file = tokio::fs::File::create(to).await.map_err(ImageError::io(to))?;
        let mut hasher = Sha256::new();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let data = frame.map_err(|error| self.error(error))?.into_data().unwrap_or_default();
            hasher.update(&data);
            file.write_all(&data).await.map_err(ImageError::io(to))?;
        }
        file.flush().await.map_err(ImageError::io(to))?;
        let found = digest_of(hasher);
        if found == digest {
            Ok(())
        } else {
            Err(ImageError::Digest { what: "blob".to_owned(), wanted: digest.to_owned(), found })
        }
    }

    /// Requests a path, with a token if the registry asks for one, and follows redirects.
    async fn get(
        &mut self,
        path: &str,
        accept: &str,
    ) -> Result<(Response<Incoming>, HttpConnection), ImageError> {
        let scheme = if self.reference.is_plain_http() { "http" } else { "https" };
        let first = format!("{scheme}://{}{path}", self.reference.host);
        let mut url: HttpUrl = first.parse().map_err(|error| self.error(format!("{error:?}")))?;
        let origin = url.origin();
        for _ in 0..MAX_REDIRECTS {
            // The token is for the registry only, not for where it redirects to.
            let token = self.token.clone().filter(|_| url.origin() == origin);
            let (response, connection) = self.send(&url, accept, token.as_deref()).await?;
            match response.status() {
                StatusCode::OK => return Ok((response, connection)),
                StatusCode::UNAUTHORIZED if self.token.is_none() && url.origin() == origin => {
                    let challenge = response.headers().get(WWW_AUTHENTICATE);
                    let challenge = challenge.and_then(|value| value.to_str().ok()).unwrap_or_default();
                    self.token = Some(self.fetch_token(challenge).await?);
                }
                status if status.is_redirection() => {
                    let to = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                    let to = to.ok_or_else(|| self.error("redirect without a location"))?;
                    let to =
                        if to.starts_with('/') { format!("{}{to}", url.origin()) } else { to.to_owned() };
                    url = to.parse().map_err(|error| self.error(format!("{error:?}")))?;
                }
                StatusCode::NOT_FOUND => {
                    return Err(ImageError::NotFound { image: self.reference.to_string() });
                }
                status => return Err(self.error(format!("{status} for {path}"))),
            }
        }
        Err(self.error("too many redirects"))
    }

    async fn send(
        &self,
        url: &HttpUrl,
        accept: &str,
        token: Option<&str>,
    ) -> Result<(Response<Incoming>, HttpConnection), ImageError> {
        let mut connection = self.connector.connect(url).await.map_err(|error| self.error(error))?;
        let mut request = Request::get(url.path_and_query())
            .header(ACCEPT, accept)
            .header(USER_AGENT, concat!("youbencha/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Bytes::new()).map_err(|error| self.error(error))?;
        let response = connection.send(request).await.map_err(|error| self.error(error))?;
        Ok((response, connection))
    }

    /// Gets an anonymous token from the service that a registry names.
    async fn fetch_token(&self, challenge: &str) -> Result<String, ImageError> {
        let parameters = challenge.strip_prefix("Bearer ");
        let parameters = parameters.ok_or_else(|| self.error("the registry requires a login"))?;
        let value = |name: &str| {
            parameters.split(',').find_map(|part| {
                part.trim().strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"').map(str::to_owned)
            })
        };
        let realm = value("realm").ok_or_else(|| self.error("a challenge without a realm"))?;
        let scope = format!("repository:{}:pull", self.reference.repository);
        let service = value("service").unwrap_or_default();
        let url = format!("{realm}?service={service}&scope={scope}");
        let url: HttpUrl = url.parse().map_err(|error| self.error(format!("{error:?}")))?;
        let (response, _connection) = self.send(&url, "application/json", None).await?;
        if response.status() != StatusCode::OK {
            return Err(self.error("the registry requires a login"));
        }
        let body = read_body(response.into_body(), MAX_MANIFEST).await;
        let body: Value = serde_json::from_slice(&body).map_err(|error| self.error(error))?;
        let token = body["token"].as_str().or_else(|| body["access_token"].as_str());
        token.map(str::to_owned).ok_or_else(|| self.error("no token in the response"))
    }
}
