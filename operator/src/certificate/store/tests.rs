use super::*;
use jiff::SignedDuration;

fn secret(data: &[(&str, &str)]) -> Secret {
    let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec()))).collect();
    Secret { data: Some(data), ..Secret::default() }
}

#[test]
fn stored_material_is_read_again_and_unusable_material_is_reported() {
    let [one, two] = [(); 2].map(|()| Authority::make(Timestamp::now(), SignedDuration::from_hours(24)).unwrap());
    let (pem, next) = (one.anchor().pem(), two.anchor().pem());
    let pairs = [("ca.crt", pem.as_str()), ("ca.key", one.key()), ("next-ca.crt", &next), ("next-ca.key", two.key())];
    let mut good = secret(&pairs);
    good.annotations_mut().insert(PUBLISHED.to_owned(), "2026-11-22T10:00:00Z".to_owned());
    let wanted = StoredAuthorities {
        current: Some(one.clone()),
        next: Some(two.clone()),
        published: "2026-11-22T10:00:00Z".parse().ok(),
    };
    assert_eq!(authorities_in(&good), (wanted, Vec::new()));

    assert_eq!(authorities_in(&Secret::default()), (StoredAuthorities::default(), Vec::new()));
    let (found, complaints) = authorities_in(&secret(&[("ca.crt", &pem), ("ca.key", two.key()), ("next-ca.key", "x")]));
    assert_eq!(found, StoredAuthorities::default());
    assert_eq!(complaints.len(), 2);
    let foreign = "ca.crt cannot be used: its certificate and its key cannot be used together: ";
    assert!(complaints[0].starts_with(foreign), "{complaints:?}");
    assert!(
        complaints[1].starts_with("next-ca.crt cannot be used: its certificate is not in PEM format"),
        "{complaints:?}"
    );
    good.annotations_mut().insert(PUBLISHED.to_owned(), "yesterday".to_owned());
    assert_eq!(authorities_in(&good).0.published, None);
}
