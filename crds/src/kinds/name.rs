//! Names of groups that are made for owners: readable, stable, and fit for a label.

use crate::keys::MAX_GROUP_NAME;

/// Returns the name of the PodGroup that is created for an owner, or for one replica of it: the owner's name and the values that identify
/// the replica (empty: all pods are one group), with dashes between them. A name that is too long for a label is cut and ends with a hash.
pub fn of(owner: &str, replica: &[String]) -> String {
    let mut name = owner.to_owned();
    for part in replica {
        name.push('-');
        name.push_str(part);
    }
    if name.len() <= MAX_GROUP_NAME {
        return name;
    }
    let hash = fnv(name.as_bytes());
    let mut end = MAX_GROUP_NAME - 9;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    // A label's value ends with a letter or digit, and so does what stands before the dash of a name.
    let kept = name[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{kept}-{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

/// Returns the FNV-1a hash of 64 bits: the same in every build, which the standard library's hashes need not be.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_consists_of_owner_and_replica_and_is_shortened_deterministically() {
        assert_eq!(of("train", &[]), "train");
        assert_eq!(of("train", &["workers".into(), "0".into()]), "train-workers-0");
        let long = "a".repeat(60);
        let (zero, one) = (of(&long, &["workers".into(), "0".into()]), of(&long, &["workers".into(), "1".into()]));
        assert_eq!((zero.len(), one.len()), (63, 63));
        assert_ne!(zero, one);
        assert_eq!(zero, of(&long, &["workers".into(), "0".into()]));
        let dotted = of(&format!("{}.{}", "a".repeat(53), "b".repeat(40)), &[]);
        assert!(dotted.starts_with(&format!("{}-", "a".repeat(53))), "{dotted}");
    }
}
