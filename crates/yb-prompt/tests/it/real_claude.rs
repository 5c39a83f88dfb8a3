//! Prompts against the real CLI and a scripted model.

use serde_json::{Value, json};
use tempfile::TempDir;
use yb_claude::sdk::{Host, Subprocess};
use yb_prompt::{
    AdapterOptions, ClientConfig, MemoryLoader, PromptClient, PromptError, ToolRegistry, create_client,
};
use yb_tape::{MockServer, MockServerOptions, Script, Vars};
use yb_testkit::RealClaude;

struct Trial {
    claude: RealClaude,
    workspace: TempDir,
    server: MockServer,
}

impl Trial {
    fn replies(replies: &str) -> Self {
        let script = format!("{{ tape: 1, lanes: {{ main: [ {replies} ] }} }}");
        let script = Script::parse(&script, &Vars::new()).unwrap();
        let server = MockServer::start(script, &MockServerOptions::default()).unwrap();
        Self { claude: RealClaude::new(), workspace: tempfile::tempdir().unwrap(), server }
    }

    fn client(&self, file: &str) -> PromptClient {
        #[derive(serde::Deserialize)]
        struct Weather {
            town: String,
        }
        let tools = ToolRegistry::new().register("weather", |args: Weather| async move {
            match args.town.as_str() {
                "Nowhere" => Err("there is no such town"),
                town => Ok(format!("It rains in {town}.")),
            }
        });
        let mut options = AdapterOptions::default();
        options.cwd = Some(self.workspace.path().to_owned());
        let loader = MemoryLoader::new().with("p.prompt.mdx", file);
        create_client(ClientConfig::new().with_loader(loader).with_tools(tools).with_options(options))
    }

    /// The same on the pinned CLI, offline.
    fn host(&self, host: Host) -> Host {
        let transport = Subprocess::new()
            .with_program(self.claude.program())
            .with_shim(yb_testkit::bin("yb-shim"))
            .with_environment(self.claude.env(&self.server.base_url()));
        host.with_transport(transport)
    }

    fn asked(&self) -> String {
        self.server.requests().iter().map(|seen| seen.body.to_string()).collect::<Vec<_>>().join("\n")
    }
}

const TOOLS: &str = "  model_name: claude-opus-5-5\n  max_calls: 4\n  tools:\n    weather:\n      description: The weather in a town\n      parameters:\n        type: object\n        properties: { town: { type: string, minLength: 3 } }\n        required: [town]\n";

#[tokio::test]
async fn real_claude_answers_a_prompt_with_a_tool_of_this_program() {
    let trial = Trial::replies(
        "{ tools: [ { mcp__prompt-tools__weather: { town: Oslo } }, { mcp__prompt-tools__weather: { town: X } }, \
           { mcp__prompt-tools__weather: { town: Nowhere } } ] }, { say: Rain. }",
    );
    let file = format!(
        "---\ntext_config:\n{TOOLS}---\n<System>Be brief about {{props.what}}.</System>\n<User>How is it in {{props.town}}?</User>\n"
    );
    let prompt = trial.client(&file).load_text_prompt("p.prompt.mdx").unwrap();
    let params = prompt.format(&json!({"town": "Oslo", "what": "weather"})).unwrap();
    let answer = params.query_on(trial.host(params.options.host())).text().await.unwrap();
    assert_eq!(answer, "Rain.");
    let asked = trial.asked();
    for told in [
        "Be brief about weather.",
        "How is it in Oslo?",
        "It rains in Oslo.",
        "invalid arguments: `/town`",
        "the tool `weather` failed: there is no such town",
    ] {
        assert!(asked.contains(told), "{told}");
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Verdict {
    town: String,
    rain: bool,
}

#[tokio::test]
async fn real_claude_gives_an_object_that_satisfies_the_schema() {
    let trial = Trial::replies(
        "{ tools: [ { mcp__prompt-tools__weather: { town: Oslo } } ] }, \
         { tools: [ { StructuredOutput: { town: Oslo, rain: true } } ] }, { say: Done. }",
    );
    let file = format!(
        "---\nobject_config:\n{TOOLS}  schema:\n    type: object\n    properties: {{ town: {{ type: string }}, rain: {{ type: boolean }} }}\n    required: [town, rain]\n---\n<User>How is it in Oslo?</User>\n"
    );
    let prompt = trial.client(&file).load_object_prompt("p.prompt.mdx").unwrap();
    let params = prompt.format::<Verdict>(&json!({})).unwrap();
    let answer = params.object_on(trial.host(params.options.host())).await.unwrap();
    assert_eq!(answer, Verdict { town: "Oslo".to_owned(), rain: true });
    assert!(trial.asked().contains("It rains in Oslo."));
}

#[tokio::test]
async fn real_claude_without_an_object_is_an_error() {
    let trial = Trial::replies("{ say: No. }, { say: No. }, { say: No. }, { say: No. }");
    let file = "---\nobject_config:\n  model_name: claude-opus-5-5\n  schema: { type: object, required: [a] }\n---\n<User>Go.</User>\n";
    let prompt = trial.client(file).load_object_prompt("p.prompt.mdx").unwrap();
    let params = prompt.format::<Value>(&json!({})).unwrap();
    let error = params.object_on(trial.host(params.options.host())).await.unwrap_err();
    assert!(matches!(error, PromptError::Query(_)), "{error}");
}
