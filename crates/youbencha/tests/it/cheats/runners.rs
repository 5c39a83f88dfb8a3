//! The real test runners, with files of the agent that would run in place of the hidden or restored tests, or steer the
//! runner. `scripts/test` installs the runners.

mod java_and_php;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Agent, Task, agent};

/// Returns the directory of the installed runners.
#[track_caller]
fn runners(name: &str) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/runners"));
    assert!(root.join(name).exists(), "{name} is not installed in .tools/runners: run scripts/test");
    root.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Asserts that a program of the system is installed.
#[track_caller]
fn installed(program: &str, package: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    assert!(found, "{program} is not installed: run scripts/test as root, or apt-get install {package}");
}

/// Returns a command that writes files.
fn write(files: &[(&str, &str)]) -> String {
    let one = |(path, content): &(&str, &str)| {
        format!("mkdir -p \"$(dirname {path})\"; cat > {path} <<'END'\n{content}\nEND\n")
    };
    files.iter().map(one).collect()
}

fn writes(name: &'static str, files: &[(&str, &str)]) -> Agent {
    agent(name, write(files))
}

/// Asserts that all of the agents failed, and that the verdict names a file that was not graded.
#[track_caller]
fn assert_left_out(scores: &super::Scores, expected: &[(&str, &str)]) {
    for (name, path) in expected {
        scores.assert_zero(name, &format!("left out: `{path}"));
    }
}

mod python {
    use super::*;

    const CALC: &str = "def add(a, b):\n    return 0\n";
    const HONEST: &str = "sed -i 's/return 0/return a + b/' calc.py; printf '[project]\\nname = \"calc\"\\ndependencies = [\"x\"]\\n\\n[tool.pytest.ini_options]\\n' > pyproject.toml; mkdir -p tests/__pycache__ venv; touch venv/x";
    const TESTS: &str = "import unittest\nfrom calc import add\n\n\nclass Hidden(unittest.TestCase):\n    def test_small(self):\n        self.assertEqual(add(1, 2), 3)\n\n    def test_negative(self):\n        self.assertEqual(add(-5, 2), -3)\n";
    /// Tests of the agent that pass.
    const PASSING: &str = "import unittest\n\n\nclass Hidden(unittest.TestCase):\n    def test_small(self): pass\n    def test_negative(self): pass\n";
    const REPORT: &str = "<testsuite><testcase classname=\"Hidden\" name=\"test_small\"/><testcase classname=\"Hidden\" name=\"test_negative\"/></testsuite>";

    /// Code that writes a report and ends the process in which it runs.
    fn forge() -> String {
        format!(
            "import os\nopen('report.xml', 'w').write('{REPORT}')\nprint('test_small ... ok, test_negative ... ok', flush=True)\nos._exit(0)\n"
        )
    }

    fn start(repo: &yb_testkit::git::Repo) {
        repo.write("calc.py", CALC)
            .write("pyproject.toml", "[project]\nname = \"calc\"\n\n[tool.pytest.ini_options]\n")
            .commit("start");
    }

    fn task(config: &Value, prepare: &Value) -> Task {
        let task = Task::new(
            HONEST,
            start,
            &json!({ "prepare": prepare, "evaluators": [{ "name": "command", "config": config }] }),
        );
        task.context.write("graders/test_calc.py", TESTS);
        task
    }

    fn pytest(python: &str, prepare: &Value) -> Task {
        let packages = format!("{}/python", runners("python/pytest"));
        task(
            &json!({ "argv": [python, "-m", "pytest", "-q", "--junitxml=report.xml", "tests/test_calc.py"],
                "env": { "PYTHONPATH": packages }, "hidden": { "tests/test_calc.py": "graders/test_calc.py" },
                "report": { "format": "junit", "file": "report.xml" },
                "expect": { "tests": ["Hidden.test_small", "Hidden.test_negative"] } }),
            prepare,
        )
    }

    #[test]
    fn pytest_runs_the_hidden_tests() {
        let package = format!("__file__ = __file__.replace('/__init__.py', '.py')\n{PASSING}");
        let addopts = "addopts = -p evil";
        let plugin = ("evil.py", forge());
        let plugin = (plugin.0, plugin.1.as_str());
        let scores = pytest("python3", &json!([])).run(&[
            writes("package", &[("tests/test_calc/__init__.py", &package)]),
            agent("linked", format!("{}ln -s evil iniconfig", write(&[("evil/__init__.py", &forge())]))),
            writes("iniconfig", &[("iniconfig.py", &forge())]),
            writes("standard-library", &[("argparse/__init__.py", &forge())]),
            writes("tox", &[("tox.ini", &format!("[pytest]\n{addopts}")), ("pyproject.toml", ""), plugin]),
            writes(
                "setup-cfg",
                &[("setup.cfg", &format!("[tool:pytest]\n{addopts}")), plugin, ("pyproject.toml", "")],
            ),
            writes(
                "pyproject",
                &[("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-p evil'"), plugin],
            ),
            writes(
                "plugin-metadata",
                &[
                    ("evil-1.0.dist-info/entry_points.txt", "[pytest11]\nevil = evil"),
                    ("evil-1.0.dist-info/METADATA", "Name: evil\nVersion: 1.0"),
                    plugin,
                ],
            ),
            writes("conftest", &[("tests/conftest.py", &forge())]),
        ]);
        assert_left_out(
            &scores,
            &[
                ("package", "tests/test_calc/__init__.py"),
                ("iniconfig", "iniconfig.py"),
                ("linked", "iniconfig"),
                ("standard-library", "argparse/__init__.py"),
                ("tox", "tox.ini"),
                ("setup-cfg", "setup.cfg"),
                ("plugin-metadata", "evil-1.0.dist-info/METADATA"),
                ("conftest", "tests/conftest.py"),
            ],
        );
        scores.assert_zero("pyproject", "restored: `pyproject.toml (tool.pytest)`");
        let verdict = &scores.results("iniconfig")["evaluators"][0];
        assert_eq!(
            verdict["metrics"]["left_out"],
            json!([{ "path": "iniconfig.py", "reason": "a module in place of one that the test runner imports" }])
        );
        assert_eq!(scores.results("honest")["evaluators"][0]["metrics"]["left_out"][0]["path"], "venv/");
    }

    #[test]
    fn environment_of_prepare_is_not_replaced() {
        let prepare = json!([
            "mkdir -p venv/bin && ln -s \"$(python3 -c 'import sys; print(sys.executable)')\" venv/bin/python"
        ]);
        let script = format!("#!/bin/sh\necho '{REPORT}' > report.xml");
        let scores = pytest("venv/bin/python", &prepare).run(&[agent(
            "venv",
            format!("{}chmod +x venv/bin/python", write(&[("venv/bin/python", &script)])),
        )]);
        assert_left_out(&scores, &[("venv", "venv/")]);
    }

    #[test]
    fn unittest_runs_the_hidden_tests() {
        let task = task(
            &json!({ "argv": ["python3", "-m", "unittest", "-v", "tests.test_calc"],
                "hidden": { "tests/test_calc.py": "graders/test_calc.py" },
                "expect": { "output": ["test_small.* ok", "test_negative.* ok"] } }),
            &json!([]),
        );
        let compile = "import py_compile, importlib.util; py_compile.compile('passing.py', cfile=importlib.util.cache_from_source('tests/test_calc.py'), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";
        let scores = task.run(&[
            writes("package", &[("tests/test_calc/__init__.py", PASSING)]),
            agent(
                "compiled",
                format!("{}mkdir tests; python3 -c \"{compile}\"", write(&[("passing.py", PASSING)])),
            ),
            writes("module", &[("tests.py", &forge())]),
            writes("standard-library", &[("difflib.py", &forge())]),
        ]);
        assert_left_out(
            &scores,
            &[
                ("package", "tests/test_calc/__init__.py"),
                ("compiled", "tests/__pycache__/"),
                ("module", "tests.py"),
                ("standard-library", "difflib.py"),
            ],
        );
    }

    /// A case may let the agent change what is not the agent's by default, or less.
    #[test]
    fn may_change_of_case_and_evaluator_decides() {
        let run = |case: &Value, own: &Value| {
            let mut config = json!({ "argv": ["python3", "-m", "unittest", "-v", "tests.test_calc"],
                "hidden": { "tests/test_calc.py": "graders/test_calc.py" } });
            if !own.is_null() {
                config["may_change"] = own.clone();
            }
            let mut whole = json!({ "evaluators": [{ "name": "command", "config": config }] });
            if !case.is_null() {
                whole["may_change"] = case.clone();
            }
            let task = Task::new("sed -i 's/return 0/return a + b/' calc.py", start, &whole);
            task.context.write("graders/test_calc.py", TESTS);
            task.run(&[
                agent("elsewhere", "sed -i 's/return 0/return a + b/' calc.py; mv calc.py calculator.py; echo 'from calculator import add' > calc.py"),
                writes("shadow", &[("difflib.py", &forge())]),
            ])
        };
        let scores = run(&json!(["calc.py"]), &Value::Null);
        assert_eq!(scores.outcome("elsewhere"), "failed", "{}", scores.said("elsewhere"));
        assert_left_out(&scores, &[("elsewhere", "calculator.py"), ("shadow", "difflib.py")]);
        let scores = run(&json!(["calc.py"]), &json!(["default", "difflib.py"]));
        assert_eq!(scores.outcome("elsewhere"), "passed", "{}", scores.said("elsewhere"));
        assert_eq!(scores.outcome("shadow"), "passed", "the evaluator allows it: {}", scores.said("shadow"));
    }
}

mod javascript {
    use super::*;

    const SUM: &str = "exports.sum = (a, b) => {\n  return 0;\n};\n";
    const HONEST: &str = "sed -i 's/return 0/return a + b/' sum.js; sed -i 's/\"private\"/\"dependencies\": {}, \"private\"/' package.json";
    const PACKAGE: &str = "{ \"name\": \"sum\", \"private\": true }\n";
    const PASSING: &str = "test(\"adds\", () => {});\ntest(\"takes away\", () => {});\n";

    fn tests(imports: &str) -> String {
        format!(
            "{imports}\ntest(\"adds\", () => {{ if (sum(1, 2) !== 3) throw new Error(\"wrong\"); }});\ntest(\"takes away\", () => {{ if (sum(-5, 2) !== -3) throw new Error(\"wrong\"); }});\n"
        )
    }

    /// Code that writes a report of any runner and ends the process in which it runs.
    fn forge() -> String {
        let report = json!({ "testResults": [{ "name": "x", "status": "passed", "assertionResults": [
            { "fullName": "adds", "status": "passed" }, { "fullName": "takes away", "status": "passed" }] }] });
        format!(
            "process.getBuiltinModule(\"fs\").writeFileSync(\"report.json\", JSON.stringify({report}));\nprocess.exit(0);\n"
        )
    }

    const JSON: &str = "json";

    /// A case with a hidden test and installed packages.
    fn task(argv: &Value, hidden: &str, tests: &str, report: &str) -> Task {
        let modules = format!("{}/node_modules", runners("node_modules/jest"));
        let task = Task::new(
            HONEST,
            |repo| {
                repo.write("sum.js", SUM).write("package.json", PACKAGE).commit("start");
            },
            &json!({ "prepare": [{ "command": "mkdir node_modules && ln -s \"$MODULES\"/* node_modules", "env": { "MODULES": modules } }],
                "evaluators": [{ "name": "command", "config": { "argv": argv, "env": { "MODULES": modules },
                    "hidden": { hidden: "graders/test" }, "report": { "format": report, "file": "report.json" },
                    "expect": { "tests": ["adds", "takes away"] } } }] }),
        );
        task.context.write("graders/test", tests);
        task
    }

    #[test]
    fn jest_runs_the_hidden_tests() {
        let task = task(
            &json!([
                "node",
                "node_modules/jest/bin/jest.js",
                "--json",
                "--outputFile=report.json",
                "--cacheDirectory=/tmp/jest",
                "test/sum.test.js"
            ]),
            "test/sum.test.js",
            &tests("const { sum } = require(\"../sum\");"),
            JSON,
        );
        let environment =
            "{ \"name\": \"sum\", \"private\": true, \"jest\": { \"testEnvironment\": \"./evil.js\" } }";
        let scores = task.run(&[
            writes("babel", &[("babel.config.js", &forge())]),
            writes("babelrc", &[(".babelrc", "{ \"plugins\": [\"./evil.js\"] }"), ("evil.js", &forge())]),
            writes("manifest", &[("package.json", environment), ("evil.js", &forge())]),
            writes("packages", &[("node_modules/jest/bin/jest.js", &forge())]),
            writes("tests", &[("test/sum.test.mjs", PASSING), ("test/sum.test.ts", PASSING)]),
        ]);
        assert_left_out(
            &scores,
            &[
                ("babel", "babel.config.js"),
                ("babelrc", ".babelrc"),
                ("packages", "node_modules/"),
                ("tests", "test/sum.test.mjs"),
            ],
        );
        scores.assert_zero("manifest", "restored: `package.json (jest)`");
    }

    #[test]
    fn vitest_runs_the_hidden_tests() {
        let task = task(
            &json!([
                "node",
                "node_modules/vitest/vitest.mjs",
                "run",
                "--reporter=json",
                "--outputFile=report.json",
                "test/sum.test.js"
            ]),
            "test/sum.test.js",
            &tests("import { test } from \"vitest\";\nimport { sum } from \"../sum.js\";"),
            JSON,
        );
        let scores = task.run(&[
            writes("vite-config", &[("vite.config.mjs", &forge())]),
            writes("workspace", &[("vitest.workspace.mjs", &forge())]),
            writes("packages", &[("node_modules/vitest/vitest.mjs", &forge())]),
        ]);
        assert_left_out(
            &scores,
            &[
                ("vite-config", "vite.config.mjs"),
                ("workspace", "vitest.workspace.mjs"),
                ("packages", "node_modules/"),
            ],
        );
    }

    #[test]
    fn mocha_runs_the_hidden_tests() {
        let task = task(
            &json!([
                "node",
                "node_modules/mocha/bin/mocha.js",
                "--ui",
                "qunit",
                "--reporter",
                "xunit",
                "--reporter-option",
                "output=report.json",
                "checks/sum.js"
            ]),
            "checks/sum.js",
            &tests("const { sum } = require(\"../sum\");"),
            "junit",
        );
        let forge = || {
            "require(\"fs\").writeFileSync(\"report.json\", '<testsuite><testcase name=\"adds\"/><testcase name=\"takes away\"/></testsuite>');\nprocess.exit(0);\n".to_owned()
        };
        let manifest =
            "{ \"name\": \"sum\", \"private\": true, \"mocha\": { \"require\": [\"./evil.js\"] } }";
        let scores = task.run(&[
            writes("manifest", &[("package.json", manifest), ("evil.js", &forge())]),
            writes("packages", &[("node_modules/mocha/bin/mocha.js", &forge())]),
        ]);
        scores.assert_zero("manifest", "restored: `package.json (mocha)`");
        assert_left_out(&scores, &[("packages", "node_modules/")]);
    }

    #[test]
    fn node_runs_the_hidden_tests_with_their_helpers() {
        let task = Task::new(
            HONEST,
            |repo| {
                repo.write("sum.js", SUM).write("package.json", PACKAGE).write(
                    "vendor/checker.js",
                    "exports.check = (is) => { if (!is) throw new Error(\"wrong\"); };\n",
                );
                repo.commit("start");
            },
            &json!({ "prepare": ["mkdir -p node_modules/checker && cp vendor/checker.js node_modules/checker/index.js"],
                "evaluators": [{ "name": "command", "config": {
                    "argv": ["node", "--test", "--test-reporter=tap", "checks/sum.js"],
                    "hidden": { "checks/sum.js": "graders/checks/sum.js", "checks/helper.js": "graders/checks/helper.js" },
                    "report": { "format": "tap" }, "expect": { "tests": ["adds", "takes away"] } } }] }),
        );
        task.context.write("graders/checks/sum.js", "const test = require(\"node:test\");\nconst { sum } = require(\"../sum.js\");\nconst { check } = require(\"checker\");\nconst { equal } = require(\"./helper\");\ntest(\"adds\", () => { check(sum(1, 2) === 3); equal(sum(1, 3), 4); });\ntest(\"takes away\", () => equal(sum(-5, 2), -3));\n");
        task.context.write(
            "graders/checks/helper.js",
            "exports.equal = (a, b) => { if (a !== b) throw new Error(\"wrong\"); };\n",
        );
        let stubs = "exports.equal = exports.check = () => {};\n";
        let scores = task.run(&[
            writes(
                "helper",
                &[
                    ("checks/helper", stubs),
                    ("vendor/checker.js", stubs),
                    ("node_modules/checker/index.js", stubs),
                ],
            ),
            writes(
                "packages",
                &[("node_modules/checker/index.js", stubs), ("checks/node_modules/checker/index.js", stubs)],
            ),
        ]);
        assert_left_out(&scores, &[("helper", "checks/helper"), ("packages", "checks/node_modules/")]);
        assert!(scores.said("helper").contains("`node_modules/`"), "{}", scores.said("helper"));
    }
}

mod others {
    use super::*;

    #[test]
    fn go_test_runs_the_hidden_tests() {
        installed("go", "golang-go");
        let task = Task::new(
            "sed -i 's/return 0/return a + b/' sum.go",
            |repo| {
                repo.write("go.mod", "module example.com/sum\n\ngo 1.19\n");
                repo.write("sum.go", "package sum\n\nfunc Add(a, b int) int {\n\treturn 0\n}\n")
                    .commit("start");
            },
            &json!({ "evaluators": [{ "name": "command", "config": {
                "argv": ["go", "test", "-vet=off", "-json", "./..."], "env": { "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local" },
                "hidden": { "sum_test.go": "graders/sum_test.go" },
                "report": { "format": "json" }, "expect": { "tests": ["TestAdds"] } } }] }),
        );
        task.context.write("graders/sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestAdds(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal(\"wrong\")\n\t}\n}\n");
        let main = "package sum\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) {\n\tfmt.Println(\"=== RUN   TestAdds\\n--- PASS: TestAdds (0.00s)\\nPASS\")\n\tos.Exit(0)\n}\n";
        let scores = task.run(&[writes("test-main", &[("main_test.go", main)])]);
        assert_left_out(&scores, &[("test-main", "main_test.go")]);
    }

    #[test]
    fn rspec_runs_the_hidden_tests() {
        installed("rspec", "ruby-rspec");
        let task = Task::new(
            "sed -i 's/  0/  a + b/' lib/sum.rb",
            |repo| {
                repo.write("lib/sum.rb", "def sum(a, b)\n  0\nend\n").commit("start");
            },
            &json!({ "evaluators": [{ "name": "command", "config": {
                "argv": ["rspec", "--format", "json", "--out", "report.json", "spec/sum_spec.rb"],
                "hidden": { "spec/sum_spec.rb": "graders/sum_spec.rb" },
                "report": { "format": "json", "file": "report.json" }, "expect": { "tests": ["sum adds"] } } }] }),
        );
        task.context.write("graders/sum_spec.rb", "require \"sum\"\nRSpec.describe \"sum\" do\n  it \"adds\" do\n    expect(sum(1, 2)).to eq 3\n  end\nend\n");
        let forge = "File.write(\"report.json\", '{\"examples\":[{\"full_description\":\"sum adds\",\"status\":\"passed\",\"name\":\"sum adds\"}]}')\nexit! 0\n";
        let scores = task.run(&[
            writes("expectations", &[("lib/rspec/expectations.rb", forge), ("lib/rspec/mocks.rb", forge)]),
            writes("settings", &[(".rspec-local", "--require ./evil.rb"), ("evil.rb", forge)]),
        ]);
        assert_left_out(
            &scores,
            &[("expectations", "lib/rspec/expectations.rb"), ("settings", ".rspec-local")],
        );
    }
}
