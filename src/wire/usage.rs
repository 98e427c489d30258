//! Reads `usage` out of an answer.

use super::Format;

/// Tokens as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, cached parts included.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

/// The usage in the first and last bytes of an answer, whole or streamed.
pub fn read(format: Format, head: &[u8], tail: &[u8]) -> Option<Usage> {
    let first = objects(head).last();
    let last = objects(tail).last();
    let last = last.or(first.clone())?;
    let number = |value: &serde_json::Value, key: &str| value[key].as_u64().unwrap_or(0);
    Some(match format {
        Format::Chat => Usage {
            input: number(&last, "prompt_tokens"),
            cached: number(&last["prompt_tokens_details"], "cached_tokens"),
            output: number(&last, "completion_tokens"),
        },
        Format::Responses => Usage {
            input: number(&last, "input_tokens"),
            cached: number(&last["input_tokens_details"], "cached_tokens"),
            output: number(&last, "output_tokens"),
        },
        Format::Messages => {
            let prompt = first.filter(|usage| usage["input_tokens"].is_u64()).unwrap_or_else(|| last.clone());
            let cached = number(&prompt, "cache_read_input_tokens");
            Usage {
                input: number(&prompt, "input_tokens") + number(&prompt, "cache_creation_input_tokens") + cached,
                cached,
                output: number(&last, "output_tokens"),
            }
        }
    })
}

/// Every object that stands behind a key `usage`.
fn objects(bytes: &[u8]) -> impl Iterator<Item = serde_json::Value> {
    memchr::memmem::find_iter(bytes, b"\"usage\"").filter_map(|at| {
        let rest = bytes[at + 7..].trim_ascii_start().strip_prefix(b":")?;
        serde_json::Deserializer::from_slice(rest).into_iter::<serde_json::Value>().next()?.ok().filter(serde_json::Value::is_object)
    })
}
