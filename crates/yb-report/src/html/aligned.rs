//! Two conversations side by side: the steps that they share once, then both from the first difference on.

use serde_json::Value;
use yb_engine::edit::relative_paths;
use yb_figures::{counted, plural};

use super::markup::Markup;
use super::transcript::{Step, steps, write_step};

/// The maximum number of steps after the first difference.
const SHOWN: usize = 200;

/// Writes two logs of agents.
pub(crate) fn write(body: &mut Markup, one: &Value, two: &Value) {
    let workspace =
        |log: &Value| log["environment"]["working_directory"].as_str().unwrap_or_default().to_owned();
    let (here, there) = (workspace(one), workspace(two));
    let (one, two) = (steps(one), steps(two));
    if one.is_empty() && two.is_empty() {
        return;
    }
    let shared = shared(&one, &two, (&here, &there));
    body.raw("<section class=\"card talk\"><h2>Conversations</h2>");
    if shared > 0 {
        body.raw("<details class=\"same\"><summary>").text(&counted(shared, "equal step", "equal steps"));
        body.raw("</summary>");
        one[..shared].iter().take(SHOWN).for_each(|step| write_step(body, step, &here));
        body.raw("</details>");
    }
    if shared == one.len() && shared == two.len() {
        body.raw("<p class=\"hint\">The conversations are equal.</p></section>");
        return;
    }
    body.raw("<p class=\"gap\">first difference: step ").text(&(shared + 1).to_string()).raw("</p>");
    for at in shared..one.len().max(two.len()).min(shared + SHOWN) {
        body.raw("<div class=\"pair\">");
        for (steps, workspace) in [(&one, &here), (&two, &there)] {
            body.raw("<div>");
            if let Some(step) = steps.get(at) {
                write_step(body, step, workspace);
            }
            body.raw("</div>");
        }
        body.raw("</div>");
    }
    let more = one.len().max(two.len()).saturating_sub(shared + SHOWN);
    if more > 0 {
        body.raw("<p class=\"gap\">").text(&format!("{} omitted", plural(more, "step"))).raw("</p>");
    }
    body.raw("</section>");
}

/// Returns how many steps at the beginning are equal. Results of tools are not compared: they may contain times.
fn shared(one: &[Step<'_>], two: &[Step<'_>], (here, there): (&str, &str)) -> usize {
    let same = |one: &Step<'_>, two: &Step<'_>| match (one, two) {
        (Step::Message { role: a, text: x, .. }, Step::Message { role: b, text: y, .. }) => {
            a == b && relative_paths(x, here) == relative_paths(y, there)
        }
        (Step::Thinking { text: x, .. }, Step::Thinking { text: y, .. }) => {
            relative_paths(x, here) == relative_paths(y, there)
        }
        (Step::Call { name: a, arguments: x, .. }, Step::Call { name: b, arguments: y, .. }) => {
            a == b && relative_paths(x, here) == relative_paths(y, there)
        }
        _ => false,
    };
    one.iter().zip(two).take_while(|(one, two)| same(one, two)).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn log(workspace: &str, commands: &[&str]) -> Value {
        let calls = commands.iter().enumerate().map(|(at, command)| {
            let arguments = json!({"command": format!("{workspace}/{command}")}).to_string();
            json!({"role": "assistant", "content": "", "tool_calls": [
                {"id": at.to_string(), "function": {"name": "Bash", "arguments": arguments}}]})
        });
        json!({"environment": {"working_directory": workspace}, "messages": calls.collect::<Vec<_>>()})
    }

    #[test]
    fn steps_are_aligned_up_to_the_first_difference() {
        let (one, two) = (log("/w/1", &["a", "b", "c"]), log("/w/2", &["a", "x"]));
        let mut body = Markup::default();
        write(&mut body, &one, &two);
        let html = body.into_string();
        assert!(html.contains("1 equal step<") && html.contains("first difference: step 2"), "{html}");
        assert_eq!(html.matches("<div class=\"pair\">").count(), 2);
        let mut body = Markup::default();
        write(&mut body, &one, &log("/w/2", &["a", "b", "c"]));
        assert!(body.as_str().contains("The conversations are equal"));
    }
}
