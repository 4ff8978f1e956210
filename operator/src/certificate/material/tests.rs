use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-11-22T10:00:00Z".parse().unwrap()
}

fn names() -> Vec<String> {
    vec!["giveway-webhook.giveway-system.svc".to_owned(), "127.0.0.1".to_owned()]
}

fn authority() -> Authority {
    Authority::make(now(), DAY * 3650).unwrap()
}

fn why(leaf: &Leaf, authority: &Authority, names: &[String], at: Timestamp) -> String {
    leaf.check(authority.anchor(), names, at).unwrap_err().to_string()
}

#[test]
fn what_is_made_can_be_read_again_and_is_accepted_under_its_names() {
    let made = authority();
    let read = Authority::read(made.anchor().pem().as_bytes(), made.key().as_bytes()).unwrap();
    assert_eq!(read, made);
    assert_eq!(Anchor::bundle(made.anchor().pem().as_bytes()), [made.anchor().clone()]);
    let leaf = read.issue(&names(), now(), DAY * 90).unwrap();
    let renew_at = leaf.check(made.anchor(), &names(), now()).unwrap();
    let left = leaf.until().unwrap().duration_since(renew_at);
    assert!((left - DAY * 30).abs() < SignedDuration::from_hours(1), "{left:?} of 90 days are left at its renewal");
    assert_eq!(leaf.until(), Some(now() + DAY * 90));
    assert_eq!(made.renew_at() + (DAY * 3650 + BACKDATED) / 3, now() + DAY * 3650);
}

#[test]
fn an_api_server_with_a_clock_behind_by_less_than_an_hour_accepts_a_new_certificate() {
    let made = authority();
    let leaf = made.issue(&names(), now(), DAY * 90).unwrap();
    leaf.accepted_by(made.anchor(), &names(), now() - SignedDuration::from_mins(59)).unwrap();
    let early =
        leaf.accepted_by(made.anchor(), &names(), now() - SignedDuration::from_mins(61)).unwrap_err().to_string();
    assert!(early.contains("certificate not valid yet"), "{early}");
}

#[test]
fn each_certificate_that_cannot_be_served_is_refused_with_the_reason() {
    let (mine, other) = (authority(), authority());
    let good = mine.issue(&names(), now(), DAY * 90).unwrap();
    let foreign = other.issue(&names(), now(), DAY * 90).unwrap();
    let with = |change: &dyn Fn(&mut Leaf)| {
        let mut leaf = good.clone();
        change(&mut leaf);
        leaf
    };
    let rows: Vec<(Leaf, &str)> = vec![
        (Leaf::default(), "there is none"),
        (with(&|leaf| leaf.chain = b"nonsense".to_vec()), "peer sent no certificates"),
        (with(&|leaf| leaf.chain.truncate(200)), "its certificate is not in PEM format"),
        (with(&|leaf| leaf.key = Vec::new()), "its key is not in PEM format"),
        (with(&|leaf| leaf.key = foreign.key.clone()), "its certificate and its key cannot be used together"),
        (with(&|leaf| leaf.authority = b"-".to_vec()), "the certificate of its authority is not stored with it"),
        (foreign.clone(), "it would not be accepted: "),
        (mine.issue(&["elsewhere".to_owned()], now(), DAY * 90).unwrap(), "it is not valid for giveway-webhook."),
        (mine.issue(&names()[..1], now(), DAY * 90).unwrap(), "it is not valid for 127.0.0.1"),
    ];
    for (leaf, reason) in rows {
        let found = why(&leaf, &mine, &names(), now());
        assert!(found.contains(reason), "{found:?} should say {reason:?}");
    }
    assert_eq!(why(&good, &mine, &names(), now() + DAY * 61), "less than a third of its validity is left");
    assert!(why(&good, &mine, &names(), now() + DAY * 91).contains("expired"));
    assert!(good.check(mine.anchor(), &names(), now() + DAY * 59).is_ok());
}

#[test]
fn an_authority_is_refused_when_it_is_none_or_its_key_is_another_s() {
    let (mine, other) = (authority(), authority());
    let leaf = mine.issue(&names(), now(), DAY).unwrap();
    let pem = mine.anchor().pem();
    let rows: [(&[u8], &[u8], &str); 5] = [
        (b"", mine.key().as_bytes(), "its certificate is not in PEM format"),
        (pem.as_bytes(), b"", "its key is not in PEM format"),
        (pem.as_bytes(), other.key().as_bytes(), "its certificate and its key cannot be used together"),
        (&leaf.chain, &leaf.key, "its certificate is not the certificate of an authority"),
        (&pem.as_bytes()[..300], mine.key().as_bytes(), "its certificate is not in PEM format"),
    ];
    for (certificate, key, reason) in rows {
        let found = Authority::read(certificate, key).unwrap_err().to_string();
        assert!(found.contains(reason), "{found:?} should say {reason:?}");
    }
}

#[test]
fn a_bundle_with_unreadable_parts_trusts_no_authority_by_mistake() {
    let mine = authority();
    let leaf = mine.issue(&names(), now(), DAY).unwrap();
    assert_eq!(Anchor::bundle(b""), []);
    assert_eq!(Anchor::bundle(b"\xff\xfe"), []);
    assert_eq!(Anchor::bundle(&leaf.chain), [], "a leaf is not an authority");
    let both = [leaf.chain.as_slice(), mine.anchor().pem().as_bytes()].concat();
    assert_eq!(Anchor::bundle(&both), [mine.anchor().clone()]);
}

#[test]
fn a_leaf_does_not_outlive_its_authority_and_no_key_is_printed() {
    let short = Authority::make(now(), DAY).unwrap();
    let leaf = short.issue(&names(), now(), DAY * 90).unwrap();
    assert_eq!(leaf.until(), Some(now() + DAY));
    assert!(!format!("{short:?} {leaf:?}").contains("PRIVATE"));
}
