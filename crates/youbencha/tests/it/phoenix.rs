//! Phoenix from PyPI as an independent receiver of traces.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The timeout of each step.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server on loopback with its own database.
pub(crate) struct Phoenix {
    process: Child,
    address: String,
    grpc_port: u16,
    home: TempDir,
}

impl Phoenix {
    /// Starts the server on any free port.
    pub(crate) fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let program = root.join(".tools/phoenix/bin/phoenix");
        assert!(program.exists(), "Phoenix is not installed\nhint: `./scripts/test` installs it into .tools");
        // Phoenix does not print the port that it listens on for gRPC, so it gets one that was free.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let grpc_port = free.local_addr().unwrap().port();
        drop(free);
        let home = TempDir::with_prefix("yb-phoenix-").unwrap();
        let log = home.path().join("log");
        let output = || File::options().create(true).append(true).open(&log).unwrap();
        let process = Command::new(program)
            .arg("serve")
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home.path())
            .env("PHOENIX_WORKING_DIR", home.path().join("data"))
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", "0")
            .env("PHOENIX_GRPC_PORT", grpc_port.to_string())
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .env("PHOENIX_ALLOW_EXTERNAL_RESOURCES", "false")
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .spawn()
            .unwrap();
        let mut phoenix = Self { process, address: String::new(), grpc_port, home };
        phoenix.address = phoenix.until("it to listen", |phoenix| {
            let said = phoenix.said();
            let (_, address) = said.split_once("running on http://")?;
            Some(address.split_whitespace().next()?.to_owned())
        });
        phoenix
    }

    /// Returns the URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the URL for gRPC.
    pub(crate) fn grpc_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.grpc_port)
    }

    /// Waits for a condition, and fails with the output of the server.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "waited for {what}: {ended:?}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Returns the spans from the REST API.
    pub(crate) fn spans(&self) -> Vec<Value> {
        let answer = self.ask("GET", "/v1/projects/default/spans?limit=1000", "");
        answer["data"].as_array().cloned().unwrap_or_default()
    }

    /// Sends a GraphQL query, as the pages do.
    pub(crate) fn query(&self, query: &str) -> Value {
        self.ask("POST", "/graphql", &serde_json::json!({"query": query}).to_string())["data"].clone()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // HTTP/1.0: the response ends with the connection and is not chunked.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(head.contains(" 200 "), "{method} {path}: {head}\n{body}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }
}

impl Drop for Phoenix {
    fn drop(&mut self) {
        // SIGTERM first, so that it closes its database.
        if let Some(process) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
