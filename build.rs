//! Lays out, while the crate is built, what counting tokens reads while it runs: the vocabularies and the classes of characters.
//!
//! Tables in the program cost no loading, no heap, and only the pages that are touched. Their sources are `tiktoken-rs`, which carries
//! OpenAI's published vocabularies, and `regex-syntax`, whose Unicode tables are those of the regular expressions that `split.rs` stands
//! for. `src/tokens/layout.rs`, part of this program and of the library, says what a cell holds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::{env, fs, path::Path};

use regex_syntax::hir::{Class, HirKind};
use tiktoken_rs::CoreBPE;

#[path = "src/tokens/layout.rs"]
mod layout;

use layout::{Split, class, pair, short, trie};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tokens/layout.rs");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |table: &str, bytes: Vec<u8>| fs::write(Path::new(&out).join(table), bytes).expect("OUT_DIR is writable");
    for (name, bpe) in [("o200k", tiktoken_rs::o200k_base()), ("cl100k", tiktoken_rs::cl100k_base())] {
        let tokens = tokens(&bpe.expect("the vocabulary is part of the crate"));
        let splits = splits(&tokens);
        write(&format!("{name}.short"), short_set(&tokens).into_iter().flat_map(u64::to_le_bytes).collect());
        write(&format!("{name}.trie"), double_array(&tokens).into_iter().flat_map(u64::to_le_bytes).collect());
        write(&format!("{name}.filter"), pair_filter(&splits));
        write(&format!("{name}.pairs"), pair_table(&splits).into_iter().flat_map(u32::to_le_bytes).collect());
        write(&format!("{name}.splits"), splits.into_iter().map(Split::cell).flat_map(u64::to_le_bytes).collect());
    }
    let (index, blocks) = classes();
    write("classes.index", index);
    write("classes.blocks", blocks);
}

/// The bytes of every token, by rank. Special tokens come after a gap, so the ordinary ones end at the first rank without bytes.
fn tokens(bpe: &CoreBPE) -> Vec<Vec<u8>> {
    (0..).map_while(|rank| bpe.decode_bytes(&[rank]).ok()).collect()
}

/// How each token comes about.
///
/// Merging goes by rank, lowest first, leftmost first, and a token's halves have lower ranks than the token. So whatever text surrounds
/// it, a token is always made by the merges that make it alone, and this one pair of halves stands for all ways to cut it in two.
fn splits(tokens: &[Vec<u8>]) -> Vec<Split> {
    let ranks: HashMap<&[u8], u32> = tokens.iter().zip(0..).map(|(token, rank)| (token.as_slice(), rank)).collect();
    let split = |(token, rank): (&Vec<u8>, u32)| {
        let mut cuts: Vec<usize> = (0..=token.len()).collect();
        let merged = |cuts: &[usize], at: usize| ranks.get(&token[cuts[at]..cuts[at + 2]]).copied().unwrap_or(u32::MAX);
        let mut merges: Vec<u32> = (0..token.len() - 1).map(|at| merged(&cuts, at)).collect();
        while merges.len() > 1 {
            let at = (0..merges.len()).min_by_key(|&at| merges[at]).expect("more than one");
            assert!(merges[at] < rank, "token {rank} is made of lower ones");
            cuts.remove(at + 1);
            merges.remove(at);
            for at in at.saturating_sub(1)..(at + 1).min(merges.len()) {
                merges[at] = merged(&cuts, at);
            }
        }
        let [left, right] = if token.len() > 1 { [&token[..cuts[1]], &token[cuts[1]..]] } else { [&token[..], &token[..]] };
        let prefix = (1..token.len()).rev().find_map(|len| ranks.get(&token[..len])).copied().unwrap_or(rank);
        Split { left: ranks[left], right: ranks[right], prefix, len: token.len() }
    };
    tokens.iter().zip(0..).map(split).collect()
}

fn short_set(tokens: &[Vec<u8>]) -> Vec<u64> {
    let cell = |token: &Vec<u8>| short::cell(token.iter().rev().fold(0, |cell, &byte| cell << 8 | byte as u64), token.len());
    table(tokens.iter().filter(|token| token.len() <= short::LONGEST).map(cell).collect(), short::EMPTY, layout::hash)
}

fn pair_table(splits: &[Split]) -> Vec<u32> {
    let hash = |token: u32| pair::hash(splits[token as usize].left, splits[token as usize].right);
    let merged = splits.iter().zip(0..).filter(|(split, _)| split.len > 1);
    table(merged.map(|(_, token)| pair::cell(hash(token), token)).collect(), pair::EMPTY, |cell| hash(cell & layout::TOKEN))
}

/// A bit for each pair, by the top bits of its hash. Most pairs that are asked for don't merge, and this is small enough to stay near.
fn pair_filter(splits: &[Split]) -> Vec<u8> {
    let bits = (splits.len() * 8).next_power_of_two();
    let mut filter = vec![0u8; bits / 8];
    for split in splits.iter().filter(|split| split.len > 1) {
        let bit = (pair::hash(split.left, split.right) >> (64 - bits.ilog2())) as usize;
        filter[bit / 8] |= 1 << (bit % 8);
    }
    filter
}

fn table<T: Copy + PartialEq>(cells: Vec<T>, empty: T, hash: impl Fn(T) -> u64) -> Vec<T> {
    let bits = (cells.len() * 5 / 4).next_power_of_two().ilog2();
    let mut table = vec![empty; 1 << bits];
    for cell in cells {
        let mut slot = (hash(cell) >> (64 - bits)) as usize;
        while table[slot] != empty {
            slot = (slot + 1) % table.len();
        }
        table[slot] = cell;
    }
    table
}

/// The trie's cells, breadth first, so that the busy ones lie together.
fn double_array(tokens: &[Vec<u8>]) -> Vec<u64> {
    #[derive(Default)]
    struct Node {
        token: Option<u32>,
        children: BTreeMap<u8, usize>,
    }
    let mut nodes = vec![Node::default()];
    for (token, rank) in tokens.iter().zip(0..) {
        let mut node = 0;
        for &byte in token {
            let fresh = nodes.len();
            let child = *nodes[node].children.entry(byte).or_insert(fresh);
            if child == fresh {
                nodes.push(Node::default());
            }
            node = child;
        }
        nodes[node].token = Some(rank);
    }

    const BLOCK: usize = 256;
    /// How many of the last free cells are tried for room: more packs tighter and builds slower.
    const WINDOW: usize = 1024;
    let (mut cells, mut taken, mut free) = (vec![trie::ROOT], vec![true], Vec::new());
    let mut queue = VecDeque::from([(0, 0)]);
    while let Some((node, cell)) = queue.pop_front() {
        let labels: Vec<usize> = nodes[node].children.keys().map(|&byte| byte as usize).collect();
        let Some(&first) = labels.first() else { continue };
        let fits = |base: &usize| !taken[*base] && labels.iter().all(|label| cells[base ^ label] == trie::EMPTY);
        let base = free.iter().map(|cell| cell ^ first).find(fits).unwrap_or_else(|| {
            let block = cells.len().next_multiple_of(BLOCK);
            free.extend(cells.len()..block + BLOCK);
            cells.resize(block + BLOCK, trie::EMPTY);
            taken.resize(block + BLOCK, false);
            free.drain(..free.len().saturating_sub(WINDOW));
            block
        });
        taken[base] = true;
        cells[cell] |= base as u64;
        for (&byte, &child) in &nodes[node].children {
            let place = base ^ byte as usize;
            cells[place] = trie::cell(byte, nodes[child].token);
            queue.push_back((child, place));
        }
        free.retain(|&cell| cells[cell] == trie::EMPTY);
    }
    cells
}

/// The index of blocks, and the blocks.
fn classes() -> (Vec<u8>, Vec<u8>) {
    let mut classes = vec![0u8; 0x11_0000];
    for (pattern, bit) in class::PATTERNS {
        let HirKind::Class(Class::Unicode(class)) = regex_syntax::parse(pattern).expect("a class").into_kind() else {
            panic!("{pattern} is a class of characters")
        };
        for range in class.ranges() {
            classes[range.start() as usize..=range.end() as usize].iter_mut().for_each(|class| *class |= bit);
        }
    }
    let (mut index, mut blocks, mut known) = (Vec::new(), Vec::new(), HashMap::new());
    for block in classes.chunks(class::BLOCK) {
        let place = *known.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            blocks.len() / class::BLOCK - 1
        });
        index.extend_from_slice(&u16::try_from(place).expect("few distinct blocks").to_le_bytes());
    }
    (index, blocks)
}
