//! Programs that a hidden test starts, and that attack the test: its memory, its registers, its output, its report. Under each
//! sandbox they fail; without one, those that reach the memory of the test pass.

use serde_json::json;

use super::{Agent, Scores, Task, agent};

/// The test compares the output of the program with a value in its own memory, and writes a report.
const CHECK: &str = r#"
import subprocess, sys
wanted = bytes("sum=3\n", "ascii")
found = subprocess.run([sys.executable, "prog.py", "1", "2"], stdout=subprocess.PIPE).stdout
passed = found == wanted
with open("report.tap", "w") as report:
    print("ok 1 - small" if passed else "not ok 1 - small", file=report)
print("ok 1 - small" if passed else "not ok 1 - small", flush=True)
sys.exit(0 if passed else 1)
"#;

const PRELUDE: &str = r#"
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
parent = os.getppid()

def regions():
    for line in open(f"/proc/{parent}/maps"):
        span, modes = line.split()[:2]
        if modes.startswith("rw"):
            start, end = (int(one, 16) for one in span.split("-"))
            yield start, end

class Span(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

def copy(call, address, buffer, length):
    here, there = Span(ctypes.addressof(buffer), length), Span(address, length)
    return call(parent, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)

def replace(read, write):
    for start, end in regions():
        held = read(start, end - start)
        at = held.find(b"sum=3\n")
        while at >= 0:
            write(start + at, b"sum=0\n")
            at = held.find(b"sum=3\n", at + 1)
"#;

/// `process_vm_writev`: replaces the value that the test compares with.
const VM_WRITE: &str = r#"
def read(start, length):
    buffer = ctypes.create_string_buffer(length)
    return buffer.raw if copy(libc.process_vm_readv, start, buffer, length) == length else b""

def write(at, content):
    copy(libc.process_vm_writev, at, ctypes.create_string_buffer(content), len(content))

replace(read, write)
"#;

/// The same through the memory file of the test.
const MEMORY_FILE: &str = r#"
memory = open(f"/proc/{parent}/mem", "r+b", 0)

def read(start, length):
    memory.seek(start)
    return memory.read(length)

def write(at, content):
    memory.seek(at)
    memory.write(content)

replace(read, write)
"#;

/// Writes the reports, then makes the test call `exit_group(0)`.
const PTRACE: &str = r#"
for name in ("report.tap", f"/proc/{parent}/fd/1"):
    with open(name, "w") as out:
        out.write("ok 1 - small\n")
assert libc.ptrace(16, parent, None, None) == 0
os.waitpid(parent, 0x40000000)
registers = (ctypes.c_ulonglong * 27)()
libc.ptrace(12, parent, None, ctypes.addressof(registers))
registers[10], registers[14], registers[15] = 231, 0, 2**64 - 1
registers[16] -= 2
libc.ptrace(13, parent, None, ctypes.addressof(registers))
libc.ptrace(17, parent, None, None)
"#;

/// Takes the output of the test, writes to it, and ends the test.
const GETFD: &str = r#"
output = libc.syscall(438, libc.syscall(434, parent, 0), 1, 0)
for out in (output, os.open("report.tap", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
    os.write(out, b"ok 1 - small\n")
os.kill(parent, signal.SIGKILL)
"#;

/// The same through `/proc`.
const FD_FILE: &str = r#"
for name in ("report.tap", f"/proc/{parent}/fd/1"):
    with open(name, "w") as out:
        out.write("ok 1 - small\n")
os.kill(parent, signal.SIGKILL)
"#;

/// Leaves a process that overwrites the report.
const REPORT: &str = r#"
if os.fork() == 0:
    os.setsid()
    os.close(1)
    while True:
        with open("report.tap", "w") as out:
            out.write("ok 1 - small\n")
"#;

/// The attacks, and whether one passes without a sandbox.
const ATTACKS: [(&str, &str, bool); 6] = [
    ("vm-write", VM_WRITE, true),
    ("memory-file", MEMORY_FILE, true),
    ("ptrace", PTRACE, cfg!(target_arch = "x86_64")),
    ("getfd", GETFD, false),
    ("fd-file", FD_FILE, false),
    ("report", REPORT, false),
];

fn attack(isolation: &str, report: &serde_json::Value) -> Scores {
    let task = Task::new(
        "sed -i 's/print.*/print(f\"sum={int(a) + int(b)}\")/' prog.py",
        |repo| {
            repo.write("prog.py", "import sys\n_, a, b = sys.argv\nprint(\"sum=0\")\n").commit("start");
        },
        &json!({ "isolation": isolation, "evaluators": [{ "name": "command", "config": {
            "argv": ["python3", "checks/check.py"], "hidden": { "checks/check.py": "graders/check.py" },
            "report": report, "expect": { "tests": ["small"] } } }] }),
    );
    task.context.write("graders/check.py", CHECK);
    let agents: Vec<Agent> = ATTACKS
        .iter()
        .map(|(name, code, _)| {
            // Where the attack fails, the program goes on with a wrong answer.
            let code = code.trim().replace('\n', "\n    ");
            let program = format!("{PRELUDE}\ntry:\n    {code}\nexcept Exception as error:\n    print(error, file=sys.stderr)\nprint(\"sum=0\")\n");
            agent(name, format!("cat > prog.py <<'END'\n{program}\nEND"))
        })
        .collect();
    task.run(&agents)
}

#[test]
fn program_can_not_forge_the_verdict_of_the_test_that_starts_it() {
    for report in [json!({ "format": "tap" }), json!({ "format": "tap", "file": "report.tap" })] {
        for isolation in ["bubblewrap", "landlock"] {
            let scores = attack(isolation, &report);
            for (name, _, _) in ATTACKS {
                let said = scores.said(name);
                assert_eq!(scores.outcome(name), "failed", "{isolation}: {name}: {said}");
            }
        }
    }
}

/// Shows that the attacks are real.
#[test]
fn program_forges_the_verdict_without_a_sandbox() {
    let may_trace = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")
        .map_or(true, |scope| scope.trim() == "0");
    let scores = attack("none", &json!({ "format": "tap", "file": "report.tap" }));
    for (name, _, wins) in ATTACKS {
        let wins = wins && (may_trace || rustix::process::geteuid().is_root());
        let expected = if wins { "passed" } else { "failed" };
        assert_eq!(scores.outcome(name), expected, "{name}: {}", scores.said(name));
    }
}
