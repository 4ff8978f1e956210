//! Sentences that name objects, written so that they do not disclose names of another namespace (design, section 2).
//!
//! In the objects of one namespace they contain the kind and the UID of objects elsewhere, as kube-scheduler does in the messages for
//! its victims. Administrators (the log, `Preemption`s) see names.

use crate::object_key::ObjectKey;
use smol_str::SmolStr;
use std::fmt;

/// A sentence that names objects. `Display` is what administrators read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sentence(Vec<SentencePart>);

/// A part of a sentence, which can differ between readers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentencePart {
    /// For every reader.
    Text(String),
    /// An object, by name in its own namespace and by UID elsewhere; `first` if the sentence begins with it.
    Object { kind: &'static str, key: ObjectKey, uid: SmolStr, first: bool },
    /// `text` in this namespace, and the text `elsewhere` in all others.
    Detail { namespace: SmolStr, text: String, elsewhere: String },
}

impl Sentence {
    /// Appends text that every reader may see: it names no object, or only one that all readers may know.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(SentencePart::Text(text.into()));
        self
    }

    /// Appends an object: readers of its namespace see `pod group NAMESPACE/NAME`, and others `a pod group of another namespace (UID …)`.
    /// `kind` is what messages call it, such as "pod group".
    #[must_use]
    pub fn object(mut self, kind: &'static str, key: &ObjectKey, uid: &str) -> Self {
        self.0.push(SentencePart::Object { kind, key: key.clone(), uid: uid.into(), first: false });
        self
    }

    /// Creates a sentence that begins with an object, which then has a capital letter.
    pub fn about(kind: &'static str, key: &ObjectKey, uid: &str) -> Self {
        Self(vec![SentencePart::Object { kind, key: key.clone(), uid: uid.into(), first: true }])
    }

    /// Appends a text of which readers who may read `namespace` see `text`, and others see `elsewhere`.
    #[must_use]
    pub fn detail(mut self, namespace: &str, text: impl Into<String>, elsewhere: impl Into<String>) -> Self {
        self.0.push(SentencePart::Detail {
            namespace: namespace.into(),
            text: text.into(),
            elsewhere: elsewhere.into(),
        });
        self
    }

    /// Appends the parts of another sentence, without a space between them.
    #[must_use]
    pub fn then(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// Returns true if the sentence has no parts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the sentence for one reader: `knows` returns true for a namespace whose object names the reader may see. Other objects are
    /// written without their names.
    fn write(&self, f: &mut impl fmt::Write, knows: impl Fn(&str) -> bool) -> fmt::Result {
        for part in &self.0 {
            match part {
                SentencePart::Text(text) => f.write_str(text)?,
                SentencePart::Object { kind, key, first, .. } if knows(&key.namespace) => {
                    let (head, rest) = kind.split_at(1);
                    let head = if *first { head.to_uppercase() } else { head.to_owned() };
                    write!(f, "{head}{rest} {key}")?;
                }
                SentencePart::Object { kind, uid, first, .. } => {
                    let article = if *first { "A" } else { "a" };
                    write!(f, "{article} {kind} of another namespace (UID {uid})")?;
                }
                SentencePart::Detail { namespace, text, .. } if knows(namespace) => f.write_str(text)?,
                SentencePart::Detail { elsewhere, .. } => f.write_str(elsewhere)?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |_| true)
    }
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        Self::default().text(text)
    }
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Self::default().text(text)
    }
}

/// Which names are disclosed to readers of a namespace: the chart's `names.acrossNamespaces`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// True if names of other namespaces are disclosed everywhere.
    pub across: bool,
}

impl Names {
    /// Returns the text of the sentence for readers of this namespace, with the names that they may know.
    pub fn render(self, sentence: &Sentence, namespace: &str) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = sentence.write(&mut text, |other| self.across || other == namespace);
        text
    }

    /// Returns true if sentences for readers of `namespace` may contain names of objects in the namespace `other`.
    pub fn known(self, other: &str, namespace: &str) -> bool {
        self.across || other == namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_another_namespace_are_shown_to_administrators_only() {
        let key = ObjectKey::new("team-a", "train");
        let sentence = Sentence::from("Preempted by ").object("pod group", &key, "u-1").text(" of priority 9.");
        assert_eq!(sentence.to_string(), "Preempted by pod group team-a/train of priority 9.");
        let shown = |across, namespace| Names { across }.render(&sentence, namespace);
        assert_eq!(shown(false, "team-a"), "Preempted by pod group team-a/train of priority 9.");
        assert_eq!(shown(true, "team-b"), "Preempted by pod group team-a/train of priority 9.");
        let elsewhere = "Preempted by a pod group of another namespace (UID u-1) of priority 9.";
        assert_eq!(shown(false, "team-b"), elsewhere);
    }

    #[test]
    fn a_sentence_may_begin_with_an_object() {
        let sentence = Sentence::about("pod group", &ObjectKey::new("team-a", "train"), "u-1").text(" waits.");
        assert_eq!(sentence.to_string(), "Pod group team-a/train waits.");
        let elsewhere = "A pod group of another namespace (UID u-1) waits.";
        assert_eq!(Names::default().render(&sentence, "team-b"), elsewhere);
    }

    #[test]
    fn details_of_another_namespace_are_replaced() {
        let sentence = Sentence::from("Refused: ").detail("team-a", "budget db allows none", "its budget allows none");
        assert_eq!(Names::default().render(&sentence, "team-a"), "Refused: budget db allows none");
        assert_eq!(Names::default().render(&sentence, "team-b"), "Refused: its budget allows none");
    }
}
