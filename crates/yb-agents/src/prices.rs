//! Prices of Claude models, as the pinned CLI calculates them; a test compares both.

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

/// US dollars for a million tokens. Writing to the cache costs a quarter more than input, for an hour twice as much.
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

/// The price that the CLI uses for an unknown model; it then reports `costBasis: "unknown"`.
const DEFAULT: Price = price(4.0, 20.0, 0.2);

/// The price of a model.
pub(super) fn of(model: &str) -> Price {
    let model = model.to_ascii_lowercase();
    PRICES.iter().find(|(name, _)| names(&model, name)).map_or(DEFAULT, |(_, price)| *price)
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
        for unknown in ["claude-haiku-9", "claude-opus-5-9", "claude-haiku-5-57", "gpt-5", "", "-20251001"] {
            assert_eq!(of(unknown), DEFAULT, "{unknown}");
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
