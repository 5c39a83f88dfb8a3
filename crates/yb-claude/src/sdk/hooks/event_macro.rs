//! The macro that declares hook events: the input struct, the output builder and the trait implementations.

/// Declares hook events as `Event -> EventOutput { input fields } { output setters }`.
macro_rules! events {
    ($(
        $(#[$about:meta])*
        $event:ident -> $output:ident {
            $($(#[$in_about:meta])* $in_field:ident: $in_type:ty = $in_key:literal,)*
        } {
            $($(#[$out_about:meta])* $setter:ident: $out_type:ty = $out_key:literal,)*
        }
    )*) => {
        /// The names of all events.
        pub const NAMES: &[&str] = &[$(stringify!($event),)*];

        $(
            lenient_struct! {
                $(#[$about])*
                pub struct $event {
                    raw,
                    /// The session ID.
                    session_id: String = "session_id",
                    /// The path of the session's transcript.
                    transcript_path: String = "transcript_path",
                    /// The working directory.
                    cwd: String = "cwd",
                    /// The ID of the prompt that triggered the event.
                    prompt_id: Option<String> = "prompt_id",
                    /// The permission mode.
                    permission_mode: Option<String> = "permission_mode",
                    /// The subagent's ID; `None` for the main thread.
                    agent_id: Option<String> = "agent_id",
                    /// The subagent's type.
                    agent_type: Option<String> = "agent_type",
                    $($(#[$in_about])* $in_field: $in_type = $in_key,)*
                }
            }

            #[doc = concat!("The output of a hook for [`", stringify!($event), "`]; empty by default.")]
            #[derive(Debug, Clone, PartialEq, Default)]
            #[must_use]
            pub struct $output {
                common: CommonHookFields,
                specific: Map<String, Value>,
            }

            impl $output {
                /// Creates an empty output, which changes nothing.
                pub fn new() -> Self {
                    Self::default()
                }

                /// Stops the session for the given reason.
                pub fn stop(mut self, reason: impl Into<String>) -> Self {
                    self.common.set("continue", false);
                    self.common.set("stopReason", reason.into());
                    self
                }

                /// Blocks the action. The model receives the reason.
                pub fn block(mut self, reason: impl Into<String>) -> Self {
                    self.common.set("decision", "block");
                    self.common.set("reason", reason.into());
                    self
                }

                /// Shows a message to the user.
                pub fn with_system_message(mut self, text: impl Into<String>) -> Self {
                    self.common.set("systemMessage", text.into());
                    self
                }

                /// Hides the hook's output from the transcript.
                pub fn with_suppressed_output(mut self) -> Self {
                    self.common.set("suppressOutput", true);
                    self
                }

                /// Lets the CLI continue while the hook keeps running.
                pub fn with_background(mut self, timeout: Option<Duration>) -> Self {
                    self.common.set("async", true);
                    if let Some(timeout) = timeout {
                        self.common.set("asyncTimeout", timeout.as_millis() as u64);
                    }
                    self
                }

                $(
                    $(#[$out_about])*
                    pub fn $setter(mut self, value: impl Into<$out_type>) -> Self {
                        let value: $out_type = value.into();
                        self.specific.insert($out_key.to_owned(), json!(value));
                        self
                    }
                )*
            }

            impl HookOutput for $output {
                fn into_json(self, event: &'static str) -> Value {
                    self.common.into_json(event, self.specific)
                }
            }

            impl HookEvent for $event {
                const NAME: &'static str = stringify!($event);
                type Output = $output;

                fn read(input: &RawJson) -> Option<Self> {
                    from_raw(input)
                }
            }
        )*
    };
}
pub(super) use events;
