//! How much each model takes: `config/models.toml`, which says what its keys mean and where its numbers are from.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::Deserialize;

use crate::tokens::Tokenizer;

/// What a model takes, in tokens, and how they are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Row")]
pub struct Model {
    pub window: Window,
    /// The most that may be asked for as output, if that is known.
    pub output: Option<u64>,
    pub tokenizer: Tokenizer,
}

/// What the provider holds the input against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Input and the output that is asked for, together.
    Shared(u64),
    /// Input alone. Room for output was set aside already: nothing must be taken off again.
    Input(u64),
}

impl Window {
    /// The most input there may be beside `output` tokens of output.
    pub fn input(self, output: u64) -> u64 {
        match self {
            Window::Shared(window) => window.saturating_sub(output),
            Window::Input(input) => input,
        }
    }
}

/// What the model of that name takes at an upstream of that host, as far as is known. Names are taken in all the spellings of gateways and
/// clouds.
pub fn model(name: &str, host: &str) -> Option<Model> {
    /// More names than this at once are made up, and so are longer ones.
    const MOST: usize = 1024;
    const LONGEST: usize = 256;
    static LATELY: LazyLock<RwLock<HashMap<String, Option<Model>>>> = LazyLock::new(RwLock::default);
    let key = [host, "\n", name].concat();
    if key.len() > LONGEST {
        return look_up(name, host);
    }
    if let Some(found) = LATELY.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *found;
    }
    let found = look_up(name, host);
    let mut lately = LATELY.write().unwrap_or_else(PoisonError::into_inner);
    if lately.len() >= MOST {
        lately.clear();
    }
    lately.insert(key, found);
    found
}

fn look_up(name: &str, host: &str) -> Option<Model> {
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    let prefix = name.split_once('/').map_or(String::new(), |(prefix, _)| prefix.replace('_', "-"));
    let pieces = Pieces::of(&name);
    let serves = |route: &&Route| route.name == prefix || route.hosts.iter().any(|known| is_host(&host, known));
    let routed = TABLE.routes.iter().find(serves).and_then(|route| best(&route.models, &pieces));
    routed.or_else(|| best(&TABLE.models, &pieces))
}

/// The window of a model, as gates read it.
pub fn window(name: &str, host: &str) -> Option<super::Window> {
    Some(match model(name, host)?.window {
        Window::Shared(tokens) => super::Window { tokens, separate_output: false },
        Window::Input(tokens) => super::Window { tokens, separate_output: true },
    })
}

/// Whether `host`, which may have a port, is `known` or below it.
fn is_host(host: &str, known: &str) -> bool {
    let host = host.split(':').next().unwrap_or_default();
    host.strip_suffix(known).is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

/// The model whose key is the longest that the name has.
fn best(models: &Models, name: &Pieces) -> Option<Model> {
    let begins = name.0.iter().filter(|(_, begins)| *begins).filter_map(|(piece, _)| models.get(*piece));
    // The last of equal ones, as they come in the file.
    let fitting = begins.flatten().filter(|(_, key, _)| name.has(key));
    fitting.max_by_key(|(place, key, _)| (key.len(), *place)).map(|(_, _, model)| *model)
}

/// By the first piece of their key: their place in the file, their key, and what they take.
type Models = HashMap<String, Vec<(usize, Vec<String>, Model)>>;

fn by_first_piece(models: impl Iterator<Item = (Vec<String>, Model)>) -> Models {
    let mut by_piece = Models::new();
    for (place, (key, model)) in models.enumerate() {
        let Some(first) = key.first() else { continue };
        by_piece.entry(first.clone()).or_default().push((place, key, model));
    }
    by_piece
}

/// A name as its runs of letters and runs of digits, each with whether a name may begin there.
struct Pieces<'a>(Vec<(&'a str, bool)>);

impl<'a> Pieces<'a> {
    /// Words that gateways put before a name with no more than a dash.
    const MAKERS: [&'static str; 10] = ["anthropic", "azure", "cohere", "databricks", "fw", "google", "meta", "nvidia", "openai", "zai"];

    fn of(name: &'a str) -> Self {
        let kind = |byte: u8| (byte.is_ascii_alphabetic(), byte.is_ascii_digit());
        let mut pieces: Vec<(&str, bool)> = Vec::new();
        let mut begins = true;
        let runs = name.as_bytes().chunk_by(|a, b| kind(*a) == kind(*b));
        let mut at = 0;
        for run in runs {
            let piece = name.get(at..at + run.len()).unwrap_or_default();
            at += run.len();
            if !run[0].is_ascii_alphanumeric() {
                begins = run.iter().any(|byte| b"/:.".contains(byte)) || pieces.last().is_some_and(|(last, _)| Self::MAKERS.contains(last));
                continue;
            }
            pieces.push((piece, begins));
            begins = false;
        }
        // "v3p1" is "3.1".
        let is_number = |piece: Option<&(&str, bool)>| piece.is_some_and(|(piece, _)| piece.as_bytes()[0].is_ascii_digit());
        let keep = |&at: &usize| match pieces[at].0 {
            "v" => !is_number(pieces.get(at + 1)),
            "p" => at == 0 || !(is_number(pieces.get(at - 1)) && is_number(pieces.get(at + 1))),
            _ => true,
        };
        Pieces((0..pieces.len()).filter(keep).map(|at| pieces[at]).collect())
    }

    fn has(&self, key: &[String]) -> bool {
        let pieces = |at: usize| self.0[at..].iter().map(|(piece, _)| piece);
        (0..self.0.len()).any(|at| self.0[at].1 && self.0.len() - at >= key.len() && pieces(at).zip(key).all(|(piece, key)| piece == key))
    }
}

struct Table {
    models: Models,
    routes: Vec<Route>,
}

struct Route {
    name: String,
    hosts: Vec<String>,
    models: Models,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let file: File = toml::from_str(include_str!("../../config/models.toml")).unwrap_or_default();
    let keyed = |models: BTreeMap<String, Model>| {
        let key = |name: &str| Pieces::of(name).0.into_iter().map(|(piece, _)| piece.to_owned()).collect();
        models.into_iter().map(move |(name, model)| (key(&name), model))
    };
    let route = |(name, route): (String, RouteTable)| Route { name, hosts: route.hosts, models: by_first_piece(keyed(route.models)) };
    Table { models: by_first_piece(file.makers.into_values().flat_map(keyed)), routes: file.route.into_iter().map(route).collect() }
});

/// The file as it is written.
#[derive(Default, Deserialize)]
struct File {
    route: BTreeMap<String, RouteTable>,
    #[serde(flatten)]
    makers: BTreeMap<String, BTreeMap<String, Model>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    hosts: Vec<String>,
    models: BTreeMap<String, Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    window: Option<u64>,
    input: Option<u64>,
    output: Option<u64>,
    #[serde(default)]
    tokenizer: Tokenizer,
}

impl TryFrom<Row> for Model {
    type Error = &'static str;

    fn try_from(Row { window, input, output, tokenizer }: Row) -> Result<Self, Self::Error> {
        let window = match (window, input) {
            (Some(window), None) => Window::Shared(window),
            (None, Some(input)) => Window::Input(input),
            _ => return Err("a model has either a window or an input limit"),
        };
        Ok(Model { window, output, tokenizer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Tokenizer::{Cl100k, Estimate, O200k};
    use Window::{Input, Shared};
    use proptest::prelude::*;

    #[test]
    fn the_file_is_read_whole_sorted_and_without_repeats() {
        let file: File = toml::from_str(include_str!("../../config/models.toml")).unwrap();
        let text = include_str!("../../config/models.toml");
        let (mut rows, mut last) = (0, "");
        for line in text.lines() {
            match line.strip_prefix('"').and_then(|line| line.split_once('"')) {
                Some((key, _)) => {
                    assert!(last < key, "{key} comes after {last}");
                    (rows, last) = (rows + 1, key);
                }
                None => last = "",
            }
        }
        let of_routes: usize = file.route.values().map(|route| route.models.len()).sum();
        assert_eq!(rows, file.makers.values().map(BTreeMap::len).sum::<usize>() + of_routes);
        let all = || TABLE.models.values().flatten();
        assert_eq!(all().count() + of_routes, rows);

        let mut keys: Vec<_> = all().map(|(_, key, _)| key).collect();
        keys.sort();
        keys.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1], "two rows mean the same model"));
        let routed = TABLE.routes.iter().flat_map(|route| route.models.values().flatten());
        for (_, key, model) in all().chain(routed) {
            let (Shared(size) | Input(size)) = model.window;
            assert!(size >= 1_000 && model.output.is_none_or(|output| (1_000..=size).contains(&output)), "{key:?} {model:?}");
        }
    }

    #[test]
    fn well_known_names_have_their_known_numbers() {
        let check = |names: &[&str], window, output, tokenizer| {
            for name in names {
                let expected = Some(Model { window, output: Some(output), tokenizer });
                assert_eq!(model(name, "gateway.example.org"), expected, "{name}");
            }
        };
        let opus = ["claude-opus-4-6", "claude-opus-4.6", "anthropic/claude-opus-4.6", "Claude-Opus-4-6", "claude-opus-4-6-20260205"];
        check(&opus, Shared(1_000_000), 128_000, Estimate);
        check(&["us.anthropic.claude-opus-4-6-v1:0", "claude-opus-4-6@20260205"], Shared(1_000_000), 128_000, Estimate);
        check(&["claude-opus-5-5", "claude-haiku-5-5", "anthropic.claude-sonnet-5"], Shared(1_000_000), 128_000, Estimate);
        let sonnet = ["claude-sonnet-4-5-20250929", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", "databricks-claude-sonnet-4-5"];
        check(&sonnet, Shared(200_000), 64_000, Estimate);
        check(
            &["arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0"],
            Shared(200_000),
            64_000,
            Estimate,
        );
        check(&["claude-sonnet-4-5[1m]", "claude-sonnet-4-5-20250929[1m]"][..1], Shared(1_000_000), 64_000, Estimate);
        check(&["claude-3-5-sonnet-20241022", "claude-3.5-haiku"], Shared(200_000), 8_192, Estimate);
        check(&["gpt-5", "openai/gpt-5", "gpt-5-2025-08-07", "gpt-5-mini", "gpt-5.1-codex-max", "gpt-5.2"], Input(272_000), 128_000, O200k);
        check(&["gpt-5.4", "gpt-5.4-pro-2026-03-05", "azure/gpt-5.5", "gpt-5.6-sol"], Input(922_000), 128_000, O200k);
        check(&["gpt-5.4-mini", "gpt-5.4-nano-2026-03-17"], Input(272_000), 128_000, O200k);
        check(&["gpt-6-astra", "openai/gpt-6.1-sol"], Input(922_000), 128_000, Estimate);
        check(&["gpt-4o", "gpt-4o-mini-2024-07-18", "ft:gpt-4o-2024-08-06:org::id", "chatgpt-4o-latest"], Shared(128_000), 16_384, O200k);
        check(&["gpt-4.1-mini", "openrouter/openai/gpt-4.1"], Shared(1_047_576), 32_768, O200k);
        check(&["gpt-4-0613", "gpt-4"], Shared(8_192), 4_096, Cl100k);
        check(&["gpt-4-turbo-2024-04-09", "gpt-4-1106-preview"], Shared(128_000), 4_096, Cl100k);
        check(&["o1", "o3-2025-04-16", "o4-mini"], Shared(200_000), 100_000, O200k);
        check(&["openai/gpt-oss-120b:free", "gpt-oss:20b"], Shared(131_072), 32_768, O200k);
        check(&["gemini-2.5-pro", "models/gemini-2.5-flash", "google/gemini-3.1-pro-preview"], Input(1_048_576), 65_536, Estimate);
        check(&["publishers/google/models/gemini-3-flash-preview"], Input(1_048_576), 65_536, Estimate);
        check(&["deepseek-v4-pro", "deepseek/deepseek-v4-flash"], Shared(1_000_000), 384_000, Estimate);
        check(&["qwen3-coder-plus"], Input(997_952), 65_536, Estimate);
        check(&["Qwen/Qwen3-Coder-480B-A35B-Instruct"], Shared(262_144), 65_536, Estimate);
        check(
            &["moonshotai/kimi-k2.7-code", "kimi-k2-thinking", "accounts/fireworks/models/kimi-k2p5"],
            Shared(262_144),
            262_144,
            Estimate,
        );
        check(&["kimi-k3.1-pro"], Shared(1_048_576), 1_048_576, Estimate);
        check(&["zai-org/GLM-4.6", "zai.glm-5", "accounts/fireworks/models/glm-4p7"], Shared(200_000), 128_000, Estimate);
        check(&["glm-5.2", "z-ai/glm-5.3-flash"], Shared(1_000_000), 128_000, Estimate);
        check(&["MiniMax-M2.5", "minimax/minimax-m2"], Shared(196_608), 131_072, Estimate);
        check(&["mistral-large-2512", "mistral-medium-3.5", "magistral-medium-latest"], Shared(262_144), 262_144, Estimate);
        check(&["x-ai/grok-4.5", "grok-4.7"], Shared(500_000), 500_000, Estimate);
        check(&["amazon.nova-pro-v1:0"], Shared(300_000), 10_000, Estimate);
        for name in ["meta.llama3-1-70b-instruct-v1:0", "llama3.1:8b", "Meta-Llama-3.1-8B", "accounts/x/models/llama-v3p1-8b-instruct"] {
            assert_eq!(model(name, "").unwrap().window, Shared(128_000), "{name}");
        }
    }

    #[test]
    fn a_route_goes_before_the_model() {
        let window = |name, host| model(name, host).unwrap().window;
        assert_eq!(window("claude-opus-4.8", "api.githubcopilot.com"), Input(200_000));
        assert_eq!(window("claude-opus-4.8", "api.business.githubcopilot.com:443"), Input(200_000));
        assert_eq!(window("github_copilot/gpt-5.5", ""), Input(272_000));
        assert_eq!(window("gpt-5.6-sol", "chatgpt.com"), Input(272_000));
        assert_eq!(window("qwen-3.8-27b", "api.cerebras.ai"), Shared(65_536));
        assert_eq!(window("kimi-k2-thinking-251104", "ark.cn-beijing.volces.com"), Input(229_376));
        assert_eq!(window("claude-opus-4-8", "api.cerebras.ai"), Shared(1_000_000), "what the route doesn't know is as elsewhere");
        assert_eq!(window("claude-opus-4.8", "notgithubcopilot.com"), Shared(1_000_000));
    }

    #[test]
    fn an_unknown_model_has_no_window() {
        for name in ["", "/", "my-model", "gpt", "gpt-50", "my-o1-model", "claude", "o", "\u{e9}\u{6f22}", "llama", "5", "v3"] {
            assert_eq!(model(name, "api.openai.com"), None, "{name}");
        }
    }

    #[test]
    fn output_is_taken_off_a_shared_window_only() {
        assert_eq!(Shared(200_000).input(64_000), 136_000);
        assert_eq!(Input(272_000).input(64_000), 272_000);
        assert_eq!(Shared(1_000).input(2_000), 0);
    }

    proptest! {
        #[test]
        fn any_name_is_looked_up(name in "(claude|gpt|-|[0-9]|v|p|/|[.:]|.){0,12}", host in ".{0,12}") {
            model(&name, &host);
        }
    }
}
