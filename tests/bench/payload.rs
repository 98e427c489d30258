//! Conversations as agents send them, the same in every run: a system prompt, tools, and turns of calls and results, few of them long.

const WORDS: &str = "the a of to and in is that it for on with as this was be are by from or an not have at but which can if will when all there use \
    file line error test value function type string number list name path request response server client config default option user key token \
    read write open close send return create update delete check parse build run start stop wait retry timeout connection buffer stream \
    message module import export class struct method field index length count offset limit range result state event handler queue task \
    thread lock cache store memory byte word letter first last next previous before after between under over same other new old empty full \
    compile release version branch commit merge change remove replace insert append prefix suffix match pattern expected actual failed passed";

/// A source of numbers that are the same in every run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

pub struct Writer {
    numbers: Numbers,
    words: Vec<&'static str>,
}

impl Writer {
    pub fn new(seed: u64) -> Self {
        Writer { numbers: Numbers::new(seed), words: WORDS.split_whitespace().collect() }
    }

    /// Common words come early in the list and often.
    fn word(&mut self) -> &'static str {
        let (a, b) = (self.numbers.below(self.words.len()), self.numbers.below(self.words.len()));
        self.words[a.min(b)]
    }

    fn name(&mut self) -> String {
        let words: Vec<&str> = (0..1 + self.numbers.below(3)).map(|_| self.word()).collect();
        words.join("_")
    }

    fn path(&mut self) -> String {
        format!("{}/{}.{}", self.name(), self.name(), self.numbers.pick(&["rs", "py", "ts", "md", "toml"]))
    }

    pub fn sentence(&mut self) -> String {
        let mut words: Vec<String> = (0..5 + self.numbers.below(14)).map(|_| self.word().to_owned()).collect();
        match self.numbers.below(6) {
            0 => words.push(format!("`{}`", self.name())),
            1 => words.push(self.numbers.below(5000).to_string()),
            _ => {}
        }
        let text = words.join(" ");
        text[..1].to_uppercase() + &text[1..] + self.numbers.pick(&[".", ".", ".", "?", ":"])
    }

    pub fn prose(&mut self, len: usize) -> String {
        let mut text = String::new();
        while text.len() < len {
            text += &self.sentence();
            text += if self.numbers.below(4) == 0 { "\n\n" } else { " " };
        }
        text
    }

    /// What tools print: a file with line numbers, a search, a log.
    pub fn output(&mut self, len: usize) -> String {
        let kind = self.numbers.below(3);
        let (mut text, mut line) = (String::new(), 1 + self.numbers.below(400));
        while text.len() < len {
            line += 1;
            text += &match kind {
                0 => match self.numbers.below(4) {
                    0 => format!("{line:>6}\t    // {}\n", self.sentence()),
                    1 => format!("{line:>6}\tpub fn {}(&self, {}: &str) -> Result<{}, Error> {{\n", self.name(), self.word(), self.word()),
                    2 => format!(
                        "{line:>6}\t    let {} = self.{}.{}({})?;\n",
                        self.word(),
                        self.name(),
                        self.word(),
                        self.numbers.below(100)
                    ),
                    _ => format!(
                        "{line:>6}\t    if {}.len() > {} {{ return Err(Error::{}); }}\n",
                        self.word(),
                        self.numbers.below(64),
                        self.word()
                    ),
                },
                1 => format!("{}:{line}:    {}({}, \"{}\")\n", self.path(), self.name(), self.name(), self.word()),
                _ => format!(
                    "2026-03-{:02}T{:02}:{:02}:07.{:03}Z {} [{}] {} id={:016x}\n",
                    1 + self.numbers.below(28),
                    self.numbers.below(24),
                    self.numbers.below(60),
                    self.numbers.below(1000),
                    self.numbers.pick(&["INFO", "INFO", "DEBUG", "WARN"]),
                    self.name(),
                    self.sentence(),
                    (self.numbers.below(1 << 30) as u64) << 31 | self.numbers.below(1 << 30) as u64,
                ),
            };
        }
        text
    }
}

/// A chat request that grows.
pub struct Conversation {
    writer: Writer,
    tools: Vec<serde_json::Value>,
    messages: Vec<serde_json::Value>,
    turns: usize,
    len: usize,
}

impl Conversation {
    pub fn new(seed: u64) -> Self {
        let mut writer = Writer::new(seed);
        let tools = (0..8)
            .map(|n| {
                serde_json::json!({"type": "function", "function": {"name": format!("{}_{n}", writer.name()), "description": writer.prose(300),
                    "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": writer.sentence()}}, "required": ["path"]}}})
            })
            .collect();
        let (system, task) = (writer.prose(3500), writer.prose(400));
        let mut conversation = Conversation { writer, tools, messages: Vec::new(), turns: 0, len: 6000 };
        conversation.push(serde_json::json!({"role": "system", "content": system}));
        conversation.push(serde_json::json!({"role": "user", "content": task}));
        conversation
    }

    fn push(&mut self, message: serde_json::Value) {
        self.len += message.to_string().len() + 1;
        self.messages.push(message);
    }

    /// One more turn, whose output has up to `most` bytes.
    pub fn turn(&mut self, most: usize) {
        self.turns += 1;
        let (id, share) = (format!("call_{:024}", self.turns), self.writer.numbers.below(1000));
        let arguments = serde_json::json!({"path": self.writer.path(), "pattern": self.writer.word()}).to_string();
        let (said, output) = (self.writer.prose(200), self.writer.output(300 + most * share * share / 1_000_000));
        let name = self.tools[self.turns % 8]["function"]["name"].clone();
        self.push(serde_json::json!({"role": "assistant", "content": said,
            "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]}));
        self.push(serde_json::json!({"role": "tool", "tool_call_id": id, "content": output}));
        if self.turns.is_multiple_of(5) {
            let (answer, wish) = (self.writer.prose(300), self.writer.prose(200));
            self.push(serde_json::json!({"role": "assistant", "content": answer}));
            self.push(serde_json::json!({"role": "user", "content": wish}));
        }
    }

    pub fn body(&self) -> Vec<u8> {
        serde_json::json!({"model": "gpt-4.1", "messages": self.messages, "tools": self.tools}).to_string().into_bytes()
    }
}

/// A request of about `len` bytes; `seed` makes it another one.
pub fn request(seed: u64, len: usize) -> Vec<u8> {
    if len < 16 << 10 {
        let mut writer = Writer::new(seed);
        let messages =
            serde_json::json!([{"role": "system", "content": writer.prose(len / 4)}, {"role": "user", "content": writer.prose(len / 2)}]);
        return serde_json::json!({"model": "gpt-4.1", "messages": messages}).to_string().into_bytes();
    }
    let mut conversation = Conversation::new(seed);
    while conversation.len < len {
        conversation.turn((len - conversation.len).min(24_000));
    }
    conversation.body()
}

/// The bodies of a session of `turns` requests.
pub fn session(turns: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut conversation = Conversation::new(seed);
    (0..turns)
        .map(|_| {
            conversation.turn(28_000);
            conversation.body()
        })
        .collect()
}

/// A streamed request. The provider answers with `chunks` chunks, `pause` microseconds apart.
pub fn streamed(chunks: usize, pause: usize) -> Vec<u8> {
    let text = Writer::new(3).prose(1500);
    serde_json::json!({"model": format!("mock-{chunks}-{pause}-"), "stream": true, "messages": [{"role": "user", "content": text}]})
        .to_string()
        .into_bytes()
}
