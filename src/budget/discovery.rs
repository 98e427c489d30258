//! What providers say about their models' windows, in the lists they serve.
//!
//! Pure: where to ask and what the answer means. Whoever asks does so in the background, and a provider that says nothing is no error.

use super::Window;
use serde_json::Value;

/// A place that may tell, relative to the provider's root, and how to ask there. In the order in which they are worth asking: what is loaded now tells more
/// than what a model could do.
pub const PLACES: [Place; 5] = [
    // llama.cpp: the context of a slot.
    Place { path: "/props", serves_one: true, ..LIST },
    // LM Studio's own list has the loaded length.
    Place { path: "/api/v0/models", ..LIST },
    // Ollama: what is loaded.
    Place { path: "/api/ps", loads_later: true, ..LIST },
    // vLLM, SGLang, llama.cpp, OpenRouter, Anthropic, GitHub Copilot.
    Place { path: "/v1/models", serves_one: true, ..LIST },
    // Ollama: what the model could do.
    Place { path: "/api/show", post: true, serves_one: true, ..LIST },
];

const LIST: Place = Place { path: "", post: false, serves_one: false, loads_later: false };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: &'static str,
    /// Asked by a POST that names the model.
    pub post: bool,
    /// Its only entry is meant, whatever name is asked for: a server of one model answers to any. Elsewhere it is one of many that happens to be loaded.
    pub serves_one: bool,
    /// It tells of a model only while that is loaded, which the first request brings about.
    pub loads_later: bool,
}

/// Members that give the window, the ones that are in force before the ones that are advertised. `true`: for the prompt alone.
const NAMES: [(&str, bool); 14] = [
    ("max_model_len", false),
    ("loaded_context_length", false),
    ("max_prompt_tokens", true),
    ("max_input_tokens", true),
    ("inputTokenLimit", true),
    ("n_ctx", false),
    ("num_ctx", false),
    ("max_context_window_tokens", false),
    ("context_window", false),
    ("context_length", false),
    ("context_size", false),
    ("max_context_length", false),
    ("max_position_embeddings", false),
    ("contextWindow", false),
];

/// A window under this is no window but a default of something, over that a made-up one; in tokens.
const SANE: std::ops::RangeInclusive<u64> = 128..=100_000_000;

/// The window that `answer` gives for `model`. A list is searched for the model, or taken by its only entry where the place `serves_one`; anything else
/// speaks of the one model that is served.
pub fn window_in(answer: &[u8], model: &str, serves_one: bool) -> Option<Window> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let list = ["data", "models"].iter().find_map(|key| answer.get(*key)).and_then(Value::as_array).or_else(|| answer.as_array());
    match list {
        Some(list) => {
            let entry = list
                .iter()
                .find(|entry| names(entry).any(|name| name == model || name.strip_suffix(":latest") == Some(model)))
                .or(match list.as_slice() {
                    [only] if serves_one => Some(only),
                    _ => None,
                })?;
            window_of(entry)
        }
        None => window_of(&answer),
    }
}

fn names(entry: &Value) -> impl Iterator<Item = &str> {
    ["id", "name", "model", "key"]
        .into_iter()
        .filter_map(|key| entry.get(key))
        .filter_map(Value::as_str)
        .map(|name| name.strip_prefix("models/").unwrap_or(name))
}

fn window_of(entry: &Value) -> Option<Window> {
    // Members of members count too (`meta.n_ctx`, `top_provider.context_length`, `capabilities.limits.max_prompt_tokens`), and the smallest of a name.
    NAMES.iter().find_map(|(name, separate_output)| {
        let mut found = Vec::new();
        collect(entry, name, 0, &mut found);
        found.into_iter().filter(|tokens| SANE.contains(tokens)).min().map(|tokens| Window { tokens, separate_output: *separate_output })
    })
}

fn collect(value: &Value, name: &str, depth: usize, found: &mut Vec<u64>) {
    const DEEPEST: usize = 4;
    let Value::Object(members) = value else { return };
    for (key, value) in members {
        // Ollama spells the architecture before it: `llama.context_length`.
        if (key == name || key.strip_suffix(name).is_some_and(|before| before.ends_with('.')))
            && let Some(tokens) = value.as_u64()
        {
            found.push(tokens);
        }
        if depth < DEEPEST {
            collect(value, name, depth + 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_say_it_in_many_ways() {
        let shared = |tokens| Some(Window { tokens, separate_output: false });
        let prompt = |tokens| Some(Window { tokens, separate_output: true });
        for (provider, answer, window) in [
            (
                "vllm",
                r#"{"object":"list","data":[{"id":"m","object":"model","max_model_len":512,"permission":[{"id":"p"}]}]}"#,
                shared(512),
            ),
            ("llama.cpp models", r#"{"models":[{"name":"m"}],"data":[{"id":"m","meta":{"n_ctx":512,"n_ctx_train":8192}}]}"#, shared(512)),
            ("llama.cpp props", r#"{"default_generation_settings":{"n_ctx":4096,"params":{}},"total_slots":1}"#, shared(4096)),
            (
                "openrouter",
                r#"{"data":[{"id":"x"},{"id":"m","context_length":200000,"top_provider":{"context_length":131072,"max_completion_tokens":8192}}]}"#,
                shared(131_072),
            ),
            ("lm studio", r#"{"data":[{"id":"m","max_context_length":131072,"loaded_context_length":4096}]}"#, shared(4096)),
            ("ollama ps", r#"{"models":[{"name":"m","model":"m","context_length":8192}]}"#, shared(8192)),
            ("ollama show", r#"{"model_info":{"llama.context_length":131072},"details":{}}"#, shared(131_072)),
            ("anthropic", r#"{"data":[{"id":"m","max_input_tokens":1000000,"max_tokens":128000}]}"#, prompt(1_000_000)),
            (
                "copilot",
                r#"{"data":[{"id":"m","capabilities":{"limits":{"max_context_window_tokens":200000,"max_prompt_tokens":128000}}}]}"#,
                prompt(128_000),
            ),
            ("gemini", r#"{"models":[{"name":"models/m","inputTokenLimit":1048576}]}"#, prompt(1_048_576)),
            ("one model, any name", r#"{"data":[{"id":"tiny","max_model_len":512}]}"#, shared(512)),
            ("another model", r#"{"data":[{"id":"a","max_model_len":512},{"id":"b","max_model_len":512}]}"#, None),
            ("openai says nothing", r#"{"data":[{"id":"m","object":"model","owned_by":"system"}]}"#, None),
            ("nonsense", r#"{"data":[{"id":"m","context_length":0}]}"#, None),
            ("an error", r#"{"error":{"message":"no"}}"#, None),
            ("html", "<html>", None),
        ] {
            assert_eq!(window_in(answer.as_bytes(), "m", true), window, "{provider}");
        }
    }

    #[test]
    fn of_many_models_the_one_that_is_loaded_is_not_meant_by_another_name() {
        let loaded = br#"{"models":[{"name":"m:latest","context_length":8192}]}"#;
        assert_eq!(window_in(loaded, "m", false), Some(Window { tokens: 8192, separate_output: false }));
        assert_eq!(window_in(loaded, "n", false), None);
    }
}
