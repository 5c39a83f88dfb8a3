//! `yb prompt render`: what a prompt says, and the query that it comes to.

use serde_json::{Value, json};
use yb_prompt::{MessageContent, MessagePart, QueryParams, RichChatMessage};

use super::Workshop;
use crate::args::PromptRenderArgs;
use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(args: &PromptRenderArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let workshop = Workshop::new(&args.filled.query);
    let (prompt, formatted) = workshop.filled(&args.filled)?;
    workshop.warn(printer);
    let (text, options, messages) = match &formatted {
        QueryParams::Text(params) => (&params.prompt, params.options.to_json(), &params.messages),
        QueryParams::Object(params) => (&params.prompt, params.options.to_json(), &params.messages),
    };
    if args.json {
        let messages: Value = messages.iter().map(RichChatMessage::to_json).collect();
        let query = json!({"prompt": text, "options": options});
        printer.line(json!({"name": prompt.name(), "messages": messages, "query": query}));
        return Ok(ExitCode::Passed);
    }
    for message in messages {
        printer.line(format_args!("[{}]", message.role.as_str()));
        match &message.content {
            MessageContent::Text(text) => printer.line(text),
            MessageContent::Parts(parts) => parts.iter().for_each(|part| show(part, printer)),
        }
        printer.line("");
    }
    printer.line("[query]");
    printer.line(serde_json::to_string_pretty(&options).unwrap_or_default());
    Ok(ExitCode::Passed)
}

fn show(part: &MessagePart, printer: &mut Printer) {
    match part {
        MessagePart::Text(text) => printer.line(text),
        MessagePart::Image { image, .. } => printer.line(format_args!("(image: {})", short(image))),
        MessagePart::File { data, media_type } => {
            printer.line(format_args!("(file, {media_type}: {})", short(data)));
        }
        _ => {}
    }
}

/// The beginning of what may be a whole file.
fn short(data: &str) -> String {
    const KEPT: usize = 60;
    match data.char_indices().nth(KEPT) {
        Some((end, _)) => format!("{}… {} bytes", data.get(..end).unwrap_or_default(), data.len()),
        None => data.to_owned(),
    }
}
