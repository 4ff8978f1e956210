//! Phrases whose nouns and verbs agree with a number. Every sentence with a count is made with them, so that none says "1 pods" or
//! "1 pod are".

/// Returns the phrase that agrees with a count: `singular` for 1, otherwise `plural`.
pub fn agree<'w, N: TryInto<i64>>(count: N, singular: &'w str, plural: &'w str) -> &'w str {
    match count.try_into() {
        Ok(1) => singular,
        _ => plural,
    }
}

/// Returns a count with the phrase that agrees with it: `counted(1, "pod is", "pods are")` is `1 pod is`, and for 2 `2 pods are`.
pub fn counted<N: TryInto<i64>>(count: N, singular: &str, plural: &str) -> String {
    let count = count.try_into().unwrap_or(i64::MAX);
    format!("{count} {}", agree(count, singular, plural))
}

/// Returns this number of pods in words: `1 pod`, `2 pods` and so on.
pub fn pods<N: TryInto<i64>>(count: N) -> String {
    counted(count, "pod", "pods")
}

/// Returns "PART of TOTAL NOUN VERB", such as `1 of 2 pods is`, `2 of 2 pods are` or `0 of 1 pod is`. `noun` and `verb` have singular and
/// plural: the noun agrees with the total; the verb is plural for a part of 2 or more, and for 0 of 2 or more.
pub fn part_of<N: TryInto<i64>, T: TryInto<i64>>(part: N, total: T, noun: (&str, &str), verb: (&str, &str)) -> String {
    let (part, total) = (part.try_into().unwrap_or(i64::MAX), total.try_into().unwrap_or(i64::MAX));
    let agrees_with = if total == 1 { total } else { part };
    format!("{part} of {} {}", counted(total, noun.0, noun.1), agree(agrees_with, verb.0, verb.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noun_and_verb_agree_with_the_count() {
        let sentence = |count: i32| format!("{} evicted.", counted(count, "pod is", "pods are"));
        assert_eq!([0, 1, 2].map(sentence), ["0 pods are evicted.", "1 pod is evicted.", "2 pods are evicted."]);
        assert_eq!([0, 1, 2].map(pods::<usize>), ["0 pods", "1 pod", "2 pods"]);
        let part = |count: i32| part_of(count, 2_usize, ("pod", "pods"), ("is", "are"));
        assert_eq!([0, 1, 2].map(part), ["0 of 2 pods are", "1 of 2 pods is", "2 of 2 pods are"]);
        let part = |count: i32| part_of(count, 1, ("victim", "victims"), ("has", "have"));
        assert_eq!([0, 1].map(part), ["0 of 1 victim has", "1 of 1 victim has"]);
        assert_eq!(agree(u64::MAX, "one", "more"), "more", "also beyond an i64");
        assert_eq!(pods(u64::MAX), format!("{} pods", i64::MAX));
    }
}
