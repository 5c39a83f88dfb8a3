//! `yb prompt render`: the messages of a prompt and the resulting query.

use serde_json::{Value, json};
use yb_figures::bytes;
use yb_prompt::{MessageContent, MessagePart, QueryParams, RichChatMessage};

use super::PromptSession;
use crate::args::PromptRenderArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(args: &PromptRenderArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let mut session = PromptSession::new(&args.filled.query);
    let (prompt, formatted) = session.load_formatted(&args.filled)?;
    session.warn(printer);
    let (text, options, messages) = match &formatted {
        QueryParams::Text(params) => (&params.prompt, params.options.to_json(), &params.messages),
        QueryParams::Object(params) => (&params.prompt, params.options.to_json(), &params.messages),
    };
    if args.json {
        let messages: Value = messages.iter().map(RichChatMessage::to_json).collect();
        let query = json!({"prompt": text, "options": options});
        printer.json(&json!({"name": prompt.name(), "messages": messages, "query": query}));
        return Ok(ExitCode::Passed);
    }
    for message in messages {
        printer.line(format_args!("[{}]", message.role.as_str()));
        match &message.content {
            MessageContent::Text(text) => printer.text(&format!("{text}\n")),
            MessageContent::Parts(parts) => parts.iter().for_each(|part| show(part, printer)),
        }
        printer.line("");
    }
    printer.line("[query]");
    printer.pretty_json(&options);
    Ok(ExitCode::Passed)
}

fn show(part: &MessagePart, printer: &mut Printer) {
    match part {
        MessagePart::Text(text) => printer.text(&format!("{text}\n")),
        MessagePart::Image { image, .. } => printer.line(format_args!("(image: {})", short(image))),
        MessagePart::File { data, media_type } => {
            printer.line(format_args!("(file, {media_type}: {})", short(data)));
        }
        _ => {}
    }
}

/// Shortens data that may be a whole file.
fn short(data: &str) -> String {
    const KEPT: usize = 60;
    match data.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}… {}", data.get(..end).unwrap_or_default(), bytes(data.len() as u64)),
        None => data.to_owned(),
    }
}
