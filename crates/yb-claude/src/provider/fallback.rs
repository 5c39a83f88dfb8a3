//! A provider that tries several providers in order.

use async_trait::async_trait;

use super::{Context, OutgoingMessage, Provider, ProviderError};

/// Tries its providers in order. It moves on if a provider is unavailable, unauthenticated, rate limited or overloaded.
/// Other errors are returned, because a fallback would hide them and may cost twice.
///
/// [`MessageMetadata::provider_used`](super::MessageMetadata::provider_used) names the provider that answered.
pub struct FallbackProvider {
    providers: Vec<Box<dyn Provider>>,
}

impl FallbackProvider {
    /// Creates a fallback over the given providers, in order.
    #[must_use]
    pub fn new(providers: Vec<Box<dyn Provider>>) -> Self {
        Self { providers }
    }
}

#[async_trait]
impl Provider for FallbackProvider {
    fn name(&self) -> &str {
        "fallback"
    }

    /// Returns whether all providers need a key.
    fn requires_api_key(&self) -> bool {
        self.providers.iter().all(|provider| provider.requires_api_key())
    }

    async fn complete(&self, context: &Context) -> Result<OutgoingMessage, ProviderError> {
        let mut reasons = Vec::new();
        for provider in &self.providers {
            if !provider.is_available().await {
                reasons.push(format!("{}: not available", provider.name()));
                continue;
            }
            match provider.complete(context).await {
                Err(error) if error.should_fall_back() => {
                    tracing::warn!(provider = provider.name(), %error, "falling back to the next provider");
                    reasons.push(format!("{}: {error}", provider.name()));
                }
                answer => return answer,
            }
        }
        Err(ProviderError::AllProvidersFailed { reasons })
    }

    async fn is_available(&self) -> bool {
        for provider in &self.providers {
            if provider.is_available().await {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ApiFailureKind;
    use crate::provider::MessageMetadata;

    /// The behavior of a scripted provider.
    #[derive(Clone, Copy)]
    enum Plan {
        Answer,
        Missing,
        Fail(ApiFailureKind),
    }

    struct Scripted {
        name: &'static str,
        plan: Plan,
        calls: Arc<AtomicUsize>,
    }

    #[async_trait]
    impl Provider for Scripted {
        fn name(&self) -> &str {
            self.name
        }

        fn requires_api_key(&self) -> bool {
            true
        }

        async fn complete(&self, context: &Context) -> Result<OutgoingMessage, ProviderError> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            match self.plan {
                Plan::Fail(failure) => Err(ProviderError::Api {
                    status: "exit status: 1".to_owned(),
                    message: "no".to_owned(),
                    failure,
                    api_status: None,
                }),
                _ => Ok(OutgoingMessage {
                    text: context.current_message.to_uppercase(),
                    metadata: MessageMetadata {
                        provider_used: self.name.to_owned(),
                        ..MessageMetadata::default()
                    },
                    reply_target: None,
                }),
            }
        }

        async fn is_available(&self) -> bool {
            !matches!(self.plan, Plan::Missing)
        }
    }

    async fn ask(plans: &[Plan]) -> (Result<OutgoingMessage, ProviderError>, usize) {
        let calls = Arc::new(AtomicUsize::new(0));
        let names = ["one", "two", "three"];
        let providers = plans.iter().zip(names).map(|(plan, name)| {
            Box::new(Scripted { name, plan: *plan, calls: calls.clone() }) as Box<dyn Provider>
        });
        let answer = FallbackProvider::new(providers.collect()).complete(&Context::new("hi")).await;
        (answer, calls.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn fallback_uses_first_available_provider() {
        let plans = [Plan::Missing, Plan::Fail(ApiFailureKind::RateLimited), Plan::Answer];
        let (answer, calls) = ask(&plans).await;
        let answer = answer.unwrap();
        assert_eq!((answer.text.as_str(), answer.metadata.provider_used.as_str()), ("HI", "three"));
        assert_eq!(calls, 2);
        let (answer, _) = ask(&[Plan::Fail(ApiFailureKind::Unauthenticated), Plan::Answer]).await;
        assert_eq!(answer.unwrap().metadata.provider_used, "two");
    }

    #[tokio::test]
    async fn fallback_returns_other_errors() {
        let (answer, calls) = ask(&[Plan::Fail(ApiFailureKind::InvalidRequest), Plan::Answer]).await;
        assert!(answer.is_err());
        assert_eq!(calls, 1);
    }

    #[tokio::test]
    async fn fallback_error_lists_all_reasons() {
        let (answer, _) = ask(&[Plan::Missing, Plan::Fail(ApiFailureKind::RateLimited)]).await;
        let text = answer.unwrap_err().to_string();
        assert_eq!(
            text,
            "no provider answered: one: not available; two: claude CLI exited with exit status: 1: no"
        );
    }
}
