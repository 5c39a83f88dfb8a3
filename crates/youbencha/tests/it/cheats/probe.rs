//! Probes: the program runs alone in the sandbox, and `yb` compares its outputs.

use serde_json::json;

use super::{Task, agent};

const HONEST: &str = "cat > calc.py <<'EOF'
import json, os, sys
numbers = sys.argv[1:] or sys.stdin.read().split() or json.load(open('in.json'))
total = sum(int(number) for number in numbers)
print(total)
json.dump({'sum': total}, open('out.json', 'w'))
EOF
";

/// A case with inputs by arguments, stdin and files.
fn task() -> Task {
    let task = Task::new(
        HONEST,
        |repo| {
            repo.write("calc.py", "print(0)\n").commit("start");
        },
        &json!({ "evaluators": [{ "name": "probe", "config": { "program": ["python3", "calc.py"], "timeout": "20s", "probes": [
            { "name": "arguments", "argv": ["200", "300"], "expect": { "stdout": "500\n" } },
            { "name": "stdin", "stdin": "4 -9\n", "expect": { "stdout_matches": "^-5\n$", "files": { "out.json": "graders/out.json" } } },
            { "name": "file", "files": { "in.json": "graders/in.json" }, "expect": { "stdout_json": 42 } },
            { "name": "error", "argv": ["x"], "expect": { "exit_code": 1, "stderr_matches": "ValueError" } },
        ] } }] }),
    );
    task.context.write("graders/out.json", "{\"sum\": -5}");
    task.context.write("graders/in.json", "[20, 22]");
    task
}

#[test]
fn probes_compare_outputs_outside_the_sandbox() {
    let program = |code: &str| format!("cat > calc.py <<'EOF'\n{code}\nEOF\n");
    let searches = r#"
import glob, os, re, sys
places = ["/proc/self/environ", *glob.glob("/proc/[0-9]*/cmdline"), *glob.glob("/proc/[0-9]*/environ")]
for top in (".", "..", os.environ["HOME"], "/tmp"):
    for folder, _, files in os.walk(top):
        places += [os.path.join(folder, file) for file in files]
for place in places:
    try:
        for word in re.findall(rb"\b500\b|\{\"sum\": -5\}", open(place, "rb").read()):
            print(word.decode())
            sys.exit(0)
    except OSError:
        pass
"#;
    let scores = task().run(&[
        agent("guesses", program("print(500)")),
        agent("searches", program(searches)),
        agent("forges", program("import os, signal\nfor name in ('verdict.json', 'out.json', 'report.xml'): open(name, 'w').write('{\"status\": \"passed\", \"sum\": -5}')\nprint('ok 1 - arguments\\nok 2 - stdin', flush=True)\nos.kill(os.getppid(), signal.SIGKILL)\nos._exit(0)")),
        agent("floods", program("for _ in range(110): print('5' * 100000)")),
        agent("hides-files", format!("{HONEST}sed -i 's/^total = .*/total = 0/' calc.py; cat >> calc.py <<'EOF'\nos.remove('out.json'); os.symlink('/etc/passwd', 'out.json'); os.symlink('/', 'in.json')\nEOF\n")),
    ]);
    scores.assert_zero("guesses", "1 of 4 probes passed");
    for name in ["searches", "forges", "floods", "hides-files"] {
        scores.assert_zero(name, "arguments: ");
    }
    let verdict = &scores.results("guesses")["evaluators"][0];
    assert_eq!(verdict["graded_code"], "probe");
    let check = &verdict["checks"][1];
    assert_eq!(check["name"], "stdin");
    assert_eq!(
        check["message"],
        "stdin: stdout is \"500\\n\", expected a match of \"^-5\\n$\", `out.json` is missing, expected a file"
    );
    assert_eq!(check["value"], json!({ "exit": 0, "stdout": "500\n" }));
    let shown = scores._context.command(crate::YB).args(["show", "task--honest--1"]).run();
    assert!(shown.stdout.contains("  probe: passed (probe): ✓ 4 of 4 probes passed"), "{}", shown.stdout);
    for (format, expected) in
        [("markdown", "probe: passed (probe)"), ("html", "<b>probe</b><span class=\"hint\">probe</span>")]
    {
        let report = ["report", "--from", "latest", "--format", format, "--output", "-"];
        let printed = scores._context.command(crate::YB).args(report).run();
        assert!(printed.stdout.contains(expected), "{format}: {}", printed.stderr);
    }
}

#[test]
fn probes_send_requests_to_a_server() {
    let honest = "cat > app.py <<'EOF'
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer(200 if self.path == '/health' else 404, {'ok': self.path == '/health'})
    def do_POST(self):
        numbers = json.loads(self.rfile.read(int(self.headers['content-length'])))
        self.answer(200, {'sum': sum(numbers)})
http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
EOF
";
    let task = Task::new(
        honest,
        |repo| {
            repo.write("app.py", "raise SystemExit(3)\n").commit("start");
        },
        &json!({ "evaluators": [{ "name": "probe", "config": { "network": true, "timeout": "20s", "probes": [
            { "name": "serves", "argv": ["python3", "app.py", "$PORT"], "requests": [
                { "path": "/health", "expect": { "body_json": { "ok": true } } },
                { "path": "/none", "expect": { "status": 404 } },
                { "path": "/sum", "method": "POST", "body_json": [19, 23], "expect": { "body_json": { "sum": 42 } } },
            ] },
        ] } }] }),
    );
    let scores = task.run(&[
        agent("always", format!("{honest}sed -i 's/sum(numbers)/41/; s/else 404/else 200/' app.py")),
        agent("closes", "echo 'import os, socket; s = socket.create_server((\"127.0.0.1\", int(os.environ[\"PORT\"])))\nwhile True: s.accept()[0].close()' > app.py"),
    ]);
    scores.assert_zero("nothing", "server is gone (exited with code 3), expected responses to all requests");
    scores.assert_zero("always", "status of GET /none is 200, expected 404, body of POST /sum is");
    scores.assert_zero("closes", "GET /health is lost");
}
