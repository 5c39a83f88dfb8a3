//! The egress proxy of a sandbox: accepts connections in the sandbox's network and opens them in the host's.
#![cfg_attr(windows, expect(dead_code, reason = "sandboxes are not supported on Windows"))]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use yb_redact::Secrets;

use crate::sandbox::{EgressRules, RefusedConnection, Sandbox, SandboxKind};

/// Returns the address of the proxy inside a network namespace, on a port that no forward uses.
pub(crate) fn proxy_address(egress: &EgressRules) -> SocketAddr {
    let taken = |port: &u16| egress.forwards.iter().any(|forward| forward.port() == *port);
    let port = (FIRST_PORT..u16::MAX).find(|port| !taken(port)).unwrap_or(FIRST_PORT);
    SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)
}

const FIRST_PORT: u16 = 61_080;

/// Timeout for reading a request head and for connecting to a target.
const IO_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request head.
const MAX_HEAD: usize = 32 << 10;
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of distinct refused targets, and of characters in a target.
const MAX_REFUSED_TARGETS: usize = 100;
const MAX_TARGET_CHARS: usize = 300;

/// A proxy that is not serving yet, but whose port is known.
#[derive(Debug)]
pub(crate) struct EgressProxySetup {
    /// The listener in the host's network, for sandboxes without a network namespace.
    listener: Option<std::net::TcpListener>,
    port: u16,
}

impl EgressProxySetup {
    pub(crate) fn prepare(sandbox: &Sandbox) -> io::Result<Self> {
        let listener = match sandbox.kind {
            SandboxKind::Bubblewrap => None,
            _ => Some(std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
        };
        let port = match &listener {
            Some(listener) => listener.local_addr()?.port(),
            None => proxy_address(&sandbox.egress).port(),
        };
        Ok(Self { listener, port })
    }

    /// Returns the host port that the sandbox must allow.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listener.as_ref().map(|_| self.port)
    }

    /// Sets the proxy variables of the child. Loopback addresses bypass the proxy.
    pub(crate) fn set_proxy_env(&self, env: &mut BTreeMap<OsString, OsString>) {
        let url = format!("http://127.0.0.1:{}", self.port);
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            env.insert(name.into(), url.clone().into());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            env.entry(name.into()).or_insert_with(|| "127.0.0.1,localhost,::1".into());
        }
    }

    /// Starts serving. The returned socket is for the sandbox init, which sends listeners of its network
    /// namespace.
    #[cfg(unix)]
    pub(crate) fn open(
        self,
        egress: EgressRules,
        secrets: Secrets,
    ) -> io::Result<(EgressProxy, Option<std::os::unix::net::UnixStream>)> {
        if let Some(listener) = self.listener {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            // Without a network namespace, forwarded addresses are reachable directly.
            let proxy_only = EgressRules { forwards: Vec::new(), ..egress };
            return Ok((EgressProxy::open(proxy_only, secrets, async { Ok(vec![listener]) }), None));
        }
        #[cfg(not(target_os = "linux"))]
        return Err(io::ErrorKind::Unsupported.into());
        #[cfg(target_os = "linux")]
        Self::with_listeners_from_sandbox(egress, secrets)
    }

    #[cfg(target_os = "linux")]
    fn with_listeners_from_sandbox(
        egress: EgressRules,
        secrets: Secrets,
    ) -> io::Result<(EgressProxy, Option<std::os::unix::net::UnixStream>)> {
        let (host_socket, sandbox_socket) = std::os::unix::net::UnixStream::pair()?;
        host_socket.set_nonblocking(true)?;
        let host_socket = tokio::net::UnixStream::from_std(host_socket)?;
        let listeners = async move {
            let received = host_socket
                .async_io(tokio::io::Interest::READABLE, || {
                    crate::shim::receive_listeners(host_socket.as_fd())
                })
                .await?;
            received
                .into_iter()
                .map(|listener| {
                    listener.set_nonblocking(true)?;
                    TcpListener::from_std(listener)
                })
                .collect()
        };
        Ok((EgressProxy::open(egress, secrets, listeners), Some(sandbox_socket)))
    }
}

/// A serving proxy; stops when dropped.
#[derive(Debug)]
pub(crate) struct EgressProxy {
    shared: Arc<ProxyState>,
    task: AbortHandle,
}

#[derive(Debug)]
struct ProxyState {
    egress: EgressRules,
    secrets: Secrets,
    refused: Mutex<BTreeMap<String, u64>>,
    connections: Arc<Semaphore>,
}

impl EgressProxy {
    /// Serves the listeners when they arrive: one per forwarded address, then that of the proxy.
    pub(crate) fn open<F>(egress: EgressRules, secrets: Secrets, listeners: F) -> Self
    where
        F: Future<Output = io::Result<Vec<TcpListener>>> + Send + 'static,
    {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let shared = Arc::new(ProxyState { egress, secrets, refused: Mutex::default(), connections });
        let served = shared.clone();
        let task = tokio::spawn(async move {
            // Without listeners every connection fails, as intended.
            let Ok(listeners) = listeners.await else { return };
            let mut tasks = tokio::task::JoinSet::new();
            let targets = served.egress.forwards.clone().into_iter().map(Some).chain([None]);
            for (listener, target) in listeners.into_iter().zip(targets) {
                tasks.spawn(served.clone().serve(listener, target));
            }
            tasks.join_all().await;
        });
        Self { shared, task: task.abort_handle() }
    }

    /// Returns the refused connections, most frequent first.
    pub(crate) fn refused(&self) -> Vec<RefusedConnection> {
        let refused = self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<RefusedConnection> = refused
            .iter()
            .map(|(target, times)| RefusedConnection { target: target.clone(), times: *times })
            .collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.times));
        all
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProxyState {
    /// Forwards connections to the target; acts as the HTTP proxy if there is none.
    async fn serve(self: Arc<Self>, listener: TcpListener, target: Option<SocketAddr>) {
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            while tasks.try_join_next().is_some() {}
            let Ok(permit) = self.connections.clone().acquire_owned().await else { return };
            let shared = self.clone();
            tasks.spawn(async move {
                let _permit = permit;
                let _ = match target {
                    Some(target) => forward(stream, target).await,
                    None => shared.proxy(stream).await,
                };
            });
        }
    }

    async fn proxy(&self, mut client: TcpStream) -> io::Result<()> {
        let Some((head, rest)) = timeout(IO_TIMEOUT, read_head(&mut client)).await?? else {
            return respond(&mut client, "400 Bad Request", "invalid proxy request").await;
        };
        let Some(request) = ProxyRequest::parse(&head) else {
            return respond(&mut client, "400 Bad Request", "invalid proxy request").await;
        };
        if !self.egress.allows(&request.host, request.port) {
            self.record_refusal(&request.host, request.port);
            let why = format!("connection not allowed by the sandbox: {}:{}", request.host, request.port);
            return respond(&mut client, "403 Forbidden", &why).await;
        }
        let connect = TcpStream::connect((request.host.as_str(), request.port));
        let mut upstream = match timeout(IO_TIMEOUT, connect).await {
            Ok(Ok(upstream)) => upstream,
            Ok(Err(error)) => return respond(&mut client, "502 Bad Gateway", &error.to_string()).await,
            Err(_) => return respond(&mut client, "504 Gateway Timeout", "connection timed out").await,
        };
        match request.forward_head {
            Some(head) => upstream.write_all(&head).await?,
            None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        }
        upstream.write_all(&rest).await?;
        copy_bidirectional(&mut client, &mut upstream).await.map(drop)
    }

    fn record_refusal(&self, host: &str, port: u16) {
        let host: String = host.chars().filter(|letter| !letter.is_control()).collect();
        // A host name may contain a secret; redact it before it is recorded.
        let target = format!("{host}:{port}");
        let target: String = self.secrets.redact(&target).chars().take(MAX_TARGET_CHARS).collect();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let known = refused.contains_key(&target) || refused.len() < MAX_REFUSED_TARGETS;
        let target = if known { target } else { "others".to_owned() };
        *refused.entry(target).or_default() += 1;
    }
}

async fn forward(mut client: TcpStream, target: SocketAddr) -> io::Result<()> {
    let mut upstream = timeout(IO_TIMEOUT, TcpStream::connect(target)).await??;
    copy_bidirectional(&mut client, &mut upstream).await.map(drop)
}

/// Reads a request head with its empty line, and the bytes that followed it. `None` if there is no complete
/// head.
async fn read_head(stream: &mut TcpStream) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok(Some((read, rest)));
        }
        if read.len() > MAX_HEAD || stream.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{why}\n"
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// A parsed proxy request.
#[derive(Debug, PartialEq, Eq)]
struct ProxyRequest {
    host: String,
    port: u16,
    /// The request head to send to the target; `None` for a `CONNECT` tunnel.
    forward_head: Option<Vec<u8>>,
}

impl ProxyRequest {
    fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let (line, headers) = text.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if method == "CONNECT" {
            let (host, port) = authority(target, None)?;
            return Some(Self { host, port, forward_head: None });
        }
        let rest = target.strip_prefix("http://")?;
        let (authority_part, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = authority(authority_part, Some(80))?;
        let path = if path.is_empty() { "/" } else { path };
        // One request per connection: the next one may be for another host.
        let mut forward_head = format!("{method} {path} {version}\r\n");
        for header in headers.split("\r\n").filter(|header| !header.is_empty()) {
            let name = header.split(':').next().unwrap_or_default();
            let hop_by_hop = ["connection", "proxy-connection", "proxy-authorization", "keep-alive"];
            if !hop_by_hop.iter().any(|dropped| name.eq_ignore_ascii_case(dropped)) {
                forward_head.push_str(header);
                forward_head.push_str("\r\n");
            }
        }
        forward_head.push_str("connection: close\r\n\r\n");
        Some(Self { host, port, forward_head: Some(forward_head.into_bytes()) })
    }
}

fn authority(text: &str, default: Option<u16>) -> Option<(String, u16)> {
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, default?),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_port_does_not_collide_with_forwards() {
        let egress = EgressRules::new().forward("127.0.0.1:61080".parse().unwrap());
        assert_eq!(proxy_address(&egress).port(), 61_081);
        assert_eq!(proxy_address(&EgressRules::new()).port(), 61_080);
    }

    #[test]
    fn proxy_requests_are_parsed() {
        let ask = |head: &str| ProxyRequest::parse(head.as_bytes());
        let tunnel = |host: &str, port| Some(ProxyRequest { host: host.into(), port, forward_head: None });
        assert_eq!(ask("CONNECT a.b:443 HTTP/1.1\r\nHost: x\r\n\r\n"), tunnel("a.b", 443));
        assert_eq!(ask("CONNECT [::1]:22 HTTP/1.1\r\n\r\n"), tunnel("::1", 22));
        for bad in [
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "x\r\n\r\n",
        ] {
            assert_eq!(ask(bad), None, "{bad}");
        }
        let request =
            ask("GET http://u:p@a.b:81/c?d HTTP/1.1\r\nHost: a.b\r\nProxy-Connection: keep-alive\r\n\r\n")
                .unwrap();
        assert_eq!((request.host.as_str(), request.port), ("a.b", 81));
        assert_eq!(
            String::from_utf8(request.forward_head.unwrap()).unwrap(),
            "GET /c?d HTTP/1.1\r\nHost: a.b\r\nconnection: close\r\n\r\n"
        );
        assert_eq!(ask("GET http://a.b HTTP/1.1\r\n\r\n").unwrap().port, 80);
    }
}
