//! Prices of models: those of Claude as the pinned Claude Code calculates them, those of OpenAI and Google as the pinned opencode
//! lists them; tests compare them.

/// Tokens of one API call, by price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    pub(super) input: u64,
    pub(super) output: u64,
    /// Written to the cache for five minutes.
    pub(super) cache_write: u64,
    /// Written to the cache for an hour.
    pub(super) cache_write_1h: u64,
    pub(super) cache_read: u64,
}

impl TokenCounts {
    /// Adds the tokens of another call. The numbers are the agent's, so they may be of any size.
    pub(super) fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
    }
}

/// US dollars for a million tokens. Writing to the cache costs a quarter more than input, for an hour twice as much. OpenAI and Google
/// report no written tokens, except for models with the same surcharge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Price {
    input: f64,
    output: f64,
    cache_read: f64,
    /// Prompts with more tokens cost this many times as much.
    long: Option<(u64, f64)>,
}

const fn price(input: f64, output: f64, cache_read: f64) -> Price {
    Price { input, output, cache_read, long: None }
}

/// By the model's plain name.
const PRICES: [(&str, Price); 23] = [
    ("claude-opus-5-5", DEFAULT),
    ("claude-opus-5", price(5.0, 25.0, 0.5)),
    ("claude-opus-4-8", price(5.0, 25.0, 0.5)),
    ("claude-opus-4-7", price(5.0, 25.0, 0.5)),
    ("claude-opus-4-6", price(5.0, 25.0, 0.5)),
    ("claude-opus-4-5", price(5.0, 25.0, 0.5)),
    ("claude-fable-5-2", price(8.0, 40.0, 0.2)),
    ("claude-fable-5-1", price(10.0, 50.0, 0.25)),
    ("claude-fable-5", price(10.0, 50.0, 1.0)),
    ("claude-mythos-5-2", price(8.0, 40.0, 0.2)),
    ("claude-mythos-5-1", price(10.0, 50.0, 0.25)),
    ("claude-mythos-5", price(10.0, 50.0, 1.0)),
    ("claude-sonnet-5-5", price(2.0, 10.0, 0.1)),
    ("claude-sonnet-5", price(2.0, 10.0, 0.2)),
    ("claude-sonnet-4-6", price(3.0, 15.0, 0.3)),
    ("claude-sonnet-4-5", price(3.0, 15.0, 0.3)),
    ("claude-sonnet-4-0", price(3.0, 15.0, 0.3)),
    ("claude-sonnet-4", price(3.0, 15.0, 0.3)),
    ("claude-3-7-sonnet", price(3.0, 15.0, 0.3)),
    ("claude-3-5-sonnet", price(3.0, 15.0, 0.3)),
    ("claude-haiku-5-5", Price { input: 0.1, output: 0.5, cache_read: 0.01, long: Some((100_000, 5.0)) }),
    ("claude-haiku-4-5", price(1.0, 5.0, 0.1)),
    ("claude-3-5-haiku", price(0.8, 4.0, 0.08)),
];

/// Models of OpenAI and Google, by the whole name. Prices for long prompts are left out, because agents report sums over all calls.
const OTHER_PRICES: [(&str, Price); 39] = [
    ("gemini-2.5-flash", price(0.3, 2.5, 0.03)),
    ("gemini-2.5-flash-lite", price(0.1, 0.4, 0.01)),
    ("gemini-2.5-pro", price(1.25, 10.0, 0.125)),
    ("gemini-3-flash-preview", price(0.5, 3.0, 0.05)),
    ("gemini-3.1-flash-lite", price(0.25, 1.5, 0.025)),
    ("gemini-3.1-pro-preview", price(2.0, 12.0, 0.2)),
    ("gemini-3.1-pro-preview-customtools", price(2.0, 12.0, 0.2)),
    ("gemini-3.5-flash", price(1.5, 9.0, 0.15)),
    ("gemini-3.5-flash-lite", price(0.3, 2.5, 0.03)),
    ("gemini-3.6-flash", price(0.75, 3.75, 0.075)),
    ("gemini-3.7-flash", price(0.75, 3.75, 0.075)),
    ("gemini-3.8-flash", price(0.75, 3.75, 0.075)),
    ("gemini-flash-latest", price(0.75, 3.75, 0.075)),
    ("gemini-flash-lite-latest", price(0.3, 2.5, 0.03)),
    ("gpt-4.1", price(2.0, 8.0, 0.5)),
    ("gpt-4.1-mini", price(0.4, 1.6, 0.1)),
    ("gpt-4o", price(2.5, 10.0, 1.25)),
    ("gpt-4o-mini", price(0.15, 0.6, 0.075)),
    ("gpt-5", price(1.25, 10.0, 0.125)),
    ("gpt-5-mini", price(0.25, 2.0, 0.025)),
    ("gpt-5-nano", price(0.05, 0.4, 0.005)),
    ("gpt-5.1", price(1.25, 10.0, 0.125)),
    ("gpt-5.2", price(1.75, 14.0, 0.175)),
    ("gpt-5.3-codex", price(1.75, 14.0, 0.175)),
    ("gpt-5.3-codex-spark", price(1.75, 14.0, 0.175)),
    ("gpt-5.4", price(2.5, 15.0, 0.25)),
    ("gpt-5.4-mini", price(0.75, 4.5, 0.075)),
    ("gpt-5.4-nano", price(0.2, 1.25, 0.02)),
    ("gpt-5.5", price(5.0, 30.0, 0.5)),
    ("gpt-5.6", price(4.0, 20.0, 0.4)),
    ("gpt-5.6-luna", price(0.2, 1.2, 0.02)),
    ("gpt-5.6-sol", price(4.0, 20.0, 0.4)),
    ("gpt-5.6-terra", price(2.0, 12.0, 0.2)),
    ("gpt-6-astra", price(10.0, 50.0, 1.0)),
    ("gpt-6-luna", price(0.1, 0.5, 0.01)),
    ("gpt-6-sol", price(2.0, 10.0, 0.2)),
    ("gpt-daybreak-blue-latest", price(4.0, 20.0, 0.4)),
    ("gpt-daybreak-red-latest", price(12.5, 75.0, 1.25)),
    ("o3", price(2.0, 8.0, 0.5)),
];

/// The price that the CLI uses for an unknown model; it then reports `costBasis: "unknown"`.
const DEFAULT: Price = price(4.0, 20.0, 0.2);

/// The price of a model of Claude Code, which uses a default for names that it does not know.
pub(super) fn of(model: &str) -> Price {
    known(model).unwrap_or(DEFAULT)
}

/// The price of a model, if a list has it.
pub(super) fn known(model: &str) -> Option<Price> {
    let model = model.to_ascii_lowercase();
    let claude = PRICES.iter().find(|(name, _)| names(&model, name));
    claude.or_else(|| OTHER_PRICES.iter().find(|(name, _)| *name == model)).map(|(_, price)| *price)
}

/// Whether a name is this model: a date, a region or a cloud's prefix may surround the name, but no further version number.
fn names(model: &str, name: &str) -> bool {
    let Some((_, rest)) = model.split_once(name) else { return false };
    let number = rest.strip_prefix('-').unwrap_or(rest);
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    digits == 0 || (digits == DATE && rest.starts_with('-'))
}

/// The digits of `20251001`.
const DATE: usize = 8;

impl Price {
    /// The cost of one call.
    pub(super) fn cost(&self, used: &TokenCounts) -> f64 {
        let parts = [used.input, used.cache_write, used.cache_write_1h, used.cache_read];
        let prompt = parts.into_iter().fold(0, u64::saturating_add);
        let factor = self.long.filter(|(limit, _)| prompt > *limit).map_or(1.0, |(_, factor)| factor);
        let count = |tokens: u64, price: f64| tokens as f64 * price;
        let sum = count(used.input, self.input)
            + count(used.output, self.output)
            + count(used.cache_write, self.input * 1.25)
            + count(used.cache_write_1h, self.input * 2.0)
            + count(used.cache_read, self.cache_read);
        sum * factor / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_of_any_token_count_is_finite_and_not_less() {
        let one = TokenCounts { input: u64::MAX, cache_read: u64::MAX, ..TokenCounts::default() };
        let mut two = one;
        two.add(&one);
        assert_eq!(two, one);
        let price = of("claude-haiku-4-5");
        assert!(
            price.cost(&two).is_finite()
                && price.cost(&two) >= price.cost(&TokenCounts { cache_read: 0, ..one })
        );
    }

    #[test]
    fn decorated_model_name_is_recognized_and_unknown_has_the_default() {
        let haiku = price(1.0, 5.0, 0.1);
        for name in [
            "claude-haiku-4-5-20251001",
            "us.anthropic.claude-haiku-4-5-20251001-v1:0",
            "claude-haiku-4-5[1m]",
        ] {
            assert_eq!(of(name), haiku, "{name}");
        }
        assert_eq!(of("claude-opus-5-5"), DEFAULT);
        assert_eq!(of("claude-opus-5-20260101"), price(5.0, 25.0, 0.5));
        for unknown in ["claude-haiku-9", "claude-opus-5-9", "claude-haiku-5-57", "gpt-9", "", "-20251001"] {
            assert_eq!(of(unknown), DEFAULT, "{unknown}");
        }
    }

    /// The pinned opencode has a list of its own, which it prints without a network.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "lists the prices of a CLI, and is waited for")]
    fn real_opencode_lists_the_same_prices() {
        let home = tempfile::tempdir().unwrap();
        let program = yb_testkit::RealAgent::named("opencode").program();
        // A file, because opencode exits before it has written all of its list to a pipe.
        let listing = home.path().join("models");
        let status = std::process::Command::new(program)
            .args(["models", "--verbose"])
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .envs([("OPENAI_API_KEY", "x"), ("GEMINI_API_KEY", "x")])
            .stdout(std::fs::File::create(&listing).unwrap())
            .status()
            .unwrap();
        assert!(status.success(), "{status}");
        let text = std::fs::read_to_string(&listing).unwrap();
        for (name, own) in OTHER_PRICES {
            let provider = if name.starts_with("gemini") { "google" } else { "openai" };
            let (_, rest) = text
                .split_once(&format!("\n{provider}/{name}\n"))
                .unwrap_or_else(|| panic!("opencode does not know {name}"));
            let listed = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>().next();
            let cost = &listed.unwrap().unwrap()["cost"];
            let usd = |pointer: &str| cost.pointer(pointer).and_then(serde_json::Value::as_f64);
            let found = [usd("/input"), usd("/output"), usd("/cache/read")];
            assert_eq!(found, [own.input, own.output, own.cache_read].map(Some), "{name}");
            let written = usd("/cache/write").unwrap_or_default();
            assert!(written == 0.0 || (written - own.input * 1.25).abs() < 1e-9, "{name}: {written}");
        }
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let million = 1_000_000;
        let used =
            TokenCounts { input: million, output: million, cache_write: million, ..TokenCounts::default() };
        assert!((of("claude-opus-5").cost(&used) - 36.25).abs() < 1e-9);
        let used = TokenCounts { cache_write_1h: million, cache_read: million, ..TokenCounts::default() };
        assert!((of("claude-opus-5").cost(&used) - 10.5).abs() < 1e-9);
    }

    #[test]
    fn long_prompt_may_cost_more() {
        let used =
            |input, cache_read| TokenCounts { input, output: 100_000, cache_read, ..TokenCounts::default() };
        let haiku = of("claude-haiku-5-5");
        assert!((haiku.cost(&used(100_000, 0)) - 0.06).abs() < 1e-9);
        assert!((haiku.cost(&used(0, 300_000)) - 0.265).abs() < 1e-9);
    }
}
