//! What is done to a review: to its bytes, or to the values and members of its JSON.

use proptest::prelude::*;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// Values that no API server sends, at least not there.
static HOSTILE: LazyLock<Vec<String>> = LazyLock::new(|| {
    let nested = |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    vec![
        "null".to_owned(),
        "true".to_owned(),
        "0".to_owned(),
        "-1".to_owned(),
        "-0.0".to_owned(),
        "1e400".to_owned(),
        "2147483648".to_owned(),
        "-9223372036854775809".to_owned(),
        "9".repeat(400),
        "\"\"".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "[null]".to_owned(),
        "{\"\":{}}".to_owned(),
        "\"\\ud800\"".to_owned(),
        "\"\\u0000\\u001f\"".to_owned(),
        "\"\u{202e}\u{1f4a9}\u{10ffff}\u{fffd}\"".to_owned(),
        "\"a\\u0062c\\/\\n\"".to_owned(),
        "\"../../../api/v1/secrets?watch=true\"".to_owned(),
        "\"~1~0/*\"".to_owned(),
        format!("\"{}\"", "x".repeat(70_000)),
        format!("\"{}\"", "é".repeat(300)),
        nested("[", "]", 100),
        nested("[", "]", 10_000),
        nested("{\"metadata\":", "1}", 100).replace("1}", "}").replace(":}", ":1}"),
        nested("{\"a\":[", "]}", 5_000),
        "{\"labels\":{},\"labels\":{}}".to_owned(),
        "{\"scheduling.giveway.dev/pod-group\":\"loose\",\"scheduling.giveway.dev/pod-group\":\"serve-worker-0\"}".to_owned(),
        "{\"scheduling.giveway.dev/preemption-plan\":\"{}\",\"kubernetes.io/config.mirror\":\"x\"}".to_owned(),
        "{\"scheduling.giveway.dev/workload\":\"serve\",\"scheduling.giveway.dev/pod-group-template\":\"worker\"}".to_owned(),
        "[{\"name\":\"scheduling.giveway.dev/pod-group\"}]".to_owned(),
        "[{\"name\":\"scheduling.giveway.dev/pod-group\"},{\"name\":\"b\"},{\"name\":\"scheduling.giveway.dev/pod-group\"}]".to_owned(),
        "\"CREATE\"".to_owned(),
        "\"UPDATE\"".to_owned(),
        "\"DELETE\"".to_owned(),
        "\"high\"".to_owned(),
        "\"Never\"".to_owned(),
        "\"system:node:n1\"".to_owned(),
        "[\"system:nodes\"]".to_owned(),
        "\"podgroups\"".to_owned(),
        "\"status\"".to_owned(),
    ]
});

fn hostile(index: usize) -> &'static str {
    &HOSTILE[index % HOSTILE.len()]
}

/// One change of a review. Numbers choose by their remainder, so that each of them is a choice.
#[derive(Clone, Debug)]
pub enum Mutation {
    /// The end is missing.
    Truncate(usize),
    /// A byte is another one.
    Flip(usize, u8),
    /// Bytes come in between.
    Insert(usize, Vec<u8>),
    /// A value is another one.
    Replace(usize, usize),
    /// A member of an object comes twice: the same value once more, or another one, before it or at the end.
    Duplicate(usize, Option<usize>, bool),
    /// Two values have changed places.
    Swap(usize, usize),
    /// An object has one more member, under a name that others have.
    Add(usize, usize, usize),
}

/// Any of them. Those that keep the JSON whole are more frequent, because they get further.
pub fn any() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        1 => any_index().prop_map(Mutation::Truncate),
        1 => (any_index(), prop::num::u8::ANY).prop_map(|(at, byte)| Mutation::Flip(at, byte)),
        1 => (any_index(), prop::collection::vec(prop::num::u8::ANY, 1..20)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        8 => (any_index(), any_index()).prop_map(|(at, value)| Mutation::Replace(at, value)),
        3 => (any_index(), prop::option::of(any_index()), prop::bool::ANY).prop_map(|(at, value, end)| Mutation::Duplicate(at, value, end)),
        3 => (any_index(), any_index()).prop_map(|(one, other)| Mutation::Swap(one, other)),
        3 => (any_index(), any_index(), any_index()).prop_map(|(at, key, value)| Mutation::Add(at, key, value)),
    ]
}

fn any_index() -> impl Strategy<Value = usize> {
    0..1_000_000_usize
}

/// Where values stand in a text, and in which objects members.
#[derive(Default)]
struct Places {
    values: Vec<Range<usize>>,
    objects: Vec<Range<usize>>,
    members: Vec<(Range<usize>, String, Range<usize>)>,
}

impl Places {
    fn of(text: &str) -> Self {
        let mut places = Self::default();
        if let Ok(whole) = serde_json::from_str::<&RawValue>(text) {
            places.add(text, whole, 0);
        }
        places
    }

    fn add(&mut self, text: &str, value: &RawValue, depth: usize) {
        let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
        let range = start..start + value.get().len();
        self.values.push(range.clone());
        if depth > 40 {
            return;
        }
        if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()) {
            self.objects.push(range.clone());
            for (key, member) in members {
                let start = member.get().as_ptr() as usize - text.as_ptr() as usize;
                self.members.push((range.clone(), key, start..start + member.get().len()));
                self.add(text, member, depth + 1);
            }
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            items.into_iter().for_each(|item| self.add(text, item, depth + 1));
        }
    }
}

fn chosen<T>(items: &[T], index: usize) -> Option<&T> {
    items.get(index.checked_rem(items.len())?)
}

fn with(text: &str, range: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &text[..range.start], &text[range.end..])
}

/// The object with one more member, in front or at the end.
fn with_member(text: &str, object: &Range<usize>, key: &str, value: &str, end: bool) -> String {
    let member = format!("{}:{value}", serde_json::to_string(key).unwrap());
    let is_empty = text[object.start + 1..object.end - 1].trim().is_empty();
    let comma = if is_empty { "" } else { "," };
    match end {
        true => with(text, object.end - 1..object.end - 1, &format!("{comma}{member}")),
        false => with(text, object.start + 1..object.start + 1, &format!("{member}{comma}")),
    }
}

impl Mutation {
    /// Whether every object has each of its keys once afterwards, when it had before.
    pub fn keeps_keys_unique(&self) -> bool {
        matches!(self, Self::Truncate(_) | Self::Swap(..))
    }

    /// The body with this change. One that is no JSON any more is changed only in its bytes.
    pub fn apply(&self, mut body: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Truncate(length) => body.truncate(length.checked_rem(body.len()).unwrap_or_default()),
            Self::Flip(at, byte) => {
                let length = body.len();
                if let Some(old) = at.checked_rem(length).and_then(|at| body.get_mut(at)) {
                    *old = *byte;
                }
            }
            Self::Insert(at, bytes) => {
                let at = at.checked_rem(body.len()).unwrap_or_default();
                body.splice(at..at, bytes.iter().copied());
            }
            other => {
                let changed = std::str::from_utf8(&body).ok().and_then(|text| other.rewrite(text));
                return changed.map_or(body, String::into_bytes);
            }
        }
        body
    }

    fn rewrite(&self, text: &str) -> Option<String> {
        let places = Places::of(text);
        match self {
            Self::Replace(at, value) => Some(with(text, chosen(&places.values, *at)?.clone(), hostile(*value))),
            Self::Duplicate(at, value, end) => {
                let (object, key, old) = chosen(&places.members, *at)?;
                let value = value.map_or(&text[old.clone()], |index| hostile(index));
                Some(with_member(text, object, key, value, *end))
            }
            Self::Swap(one, other) => {
                let (one, other) = (chosen(&places.values, *one)?, chosen(&places.values, *other)?);
                let (first, second) = if one.start <= other.start { (one, other) } else { (other, one) };
                let apart = first.end <= second.start;
                let swapped = with(text, second.clone(), &text[first.clone()]);
                apart.then(|| with(&swapped, first.clone(), &text[second.clone()]))
            }
            Self::Add(at, key, value) => {
                let (object, (_, key, _)) = (chosen(&places.objects, *at)?, chosen(&places.members, *key)?);
                Some(with_member(text, object, key, hostile(*value), true))
            }
            _ => None,
        }
    }
}
