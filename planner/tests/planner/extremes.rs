//! Quantities, priorities and counts at their limits, on small and on larger clusters, by both strategies and for every kind of search.

use crate::common::*;
use giveway_planner::rescue::{Terms, rescue};
use giveway_planner::{Cluster, Context, Decision, Strategy};
use serde_json::json;

fn all(cluster: &Cluster, what: &str) -> Vec<Decision> {
    let mut list = Vec::new();
    for strategy in [Strategy::LeastCost, Strategy::Kep5710] {
        let context = Context { strategy, ..Context::default() };
        for preemptor in [for_group("g"), for_pod("one")] {
            let decision = plan(cluster, &preemptor, &context);
            if let Decision::Preempt(found) = &decision {
                assert_eq!(check_plan(cluster, &preemptor, found), Ok(()), "{what}");
                giveway_planner::spared(cluster, &preemptor, &context, found);
            }
            if let Decision::Unschedulable(why) = &decision {
                let _ = why.to_string();
            }
            list.push(decision);
        }
    }
    let terms = Terms { namespaces: [NAMESPACE.to_owned()].into(), stranded: false };
    let _ = format!("{:?}", rescue(cluster, &key("one"), &terms, &Context::default()));
    list
}

#[test]
fn quantities_at_their_limits() {
    let huge = [
        "0",
        "8Ei",
        "9223372036854775807",
        "18446744073709551615",
        "79228162514264337593543950336",
        "1e30",
        "1n",
        "9223372036854775807m",
        "1Ei",
        "4503599627370496",
        "4503599627370497",
        "288230376151711744",
        "288230376151711745",
    ];
    let (mut tried, mut refused) = (0, 0);
    for nodes in [3usize, 70] {
        for offered in huge {
            for used in huge {
                for asked in huge {
                    if nodes == 70 && (tried % 3 != 0) {
                        tried += 1;
                        continue;
                    }
                    tried += 1;
                    let mut cluster = Cluster::default();
                    let mut ok = true;
                    let mut put = |object: Built| {
                        let value = object.0.clone();
                        ok &= match value["kind"].as_str().unwrap() {
                            "Node" => cluster.upsert_node(&serde_json::from_value(value).unwrap()).is_ok(),
                            "Pod" => cluster.upsert_pod(&serde_json::from_value(value).unwrap()).is_ok(),
                            _ => cluster.upsert_group(&serde_json::from_value(value).unwrap()).is_ok(),
                        };
                    };
                    for n in 0..nodes {
                        put(node(&format!("n{n:02}"), 4)
                            .label("zone", &format!("z{}", n % 2))
                            .offers("memory", offered)
                            .offers("cpu", offered));
                    }
                    for n in 0..nodes * 2 {
                        put(pod(&format!("low-{n:03}"))
                            .asks("memory", used)
                            .asks("cpu", used)
                            .priority(if n % 3 == 0 { i32::MIN } else { n as i32 })
                            .on(&format!("n{:02}", n % nodes)));
                    }
                    let topology = tried % 2 == 0;
                    let mut g = gang("g", 2_000_001_000, 2);
                    if topology {
                        g = g.set("/spec/schedulingConstraints", json!({"topology": [{"key": "zone"}]}));
                    }
                    put(g);
                    for m in 0..3 {
                        put(pod(&format!("g-{m}"))
                            .asks("memory", asked)
                            .asks("cpu", if m == 2 && tried % 4 == 0 { "1" } else { asked })
                            .group("g")
                            .priority(2_000_001_000));
                    }
                    put(pod("one")
                        .asks("memory", asked)
                        .asks("cpu", asked)
                        .priority(2_000_001_000)
                        .annotation("scheduling.giveway.dev/critical-addon", "true"));
                    refused += usize::from(!ok);
                    all(&cluster, &format!("{nodes} {offered} {used} {asked}"));
                }
            }
        }
    }
    println!("{tried} tried, {refused} with an object that cannot be read");
}

#[test]
fn priorities_at_their_limits() {
    let priorities =
        [i32::MIN, i32::MIN + 1, -1, 0, 1, 1_999_999_999, 2_000_000_000, 2_000_001_000, i32::MAX - 1, i32::MAX];
    for own in priorities {
        for group_of in priorities {
            for victim in priorities {
                for members in [2usize, 40] {
                    let mut objects: Vec<Built> = (0..members).map(|n| node(&format!("n{n:02}"), 4)).collect();
                    for n in 0..members * 4 {
                        let built = pod(&format!("low-{n:03}"))
                            .priority(victim.saturating_add((n % 2) as i32))
                            .on(&format!("n{:02}", n % members));
                        objects.push(if n % 4 == 0 { built.group("w") } else { built });
                    }
                    objects.push(gang("w", group_of, 1).whole());
                    objects.push(gang("g", own, members));
                    for m in 0..members {
                        objects.push(pod(&format!("g-{m}")).asks("cpu", "2").group("g").priority(own));
                    }
                    objects.push(pod("one").asks("cpu", "3").priority(own));
                    let cluster = cluster(&objects);
                    for decision in all(&cluster, &format!("{own} {group_of} {victim}")) {
                        if let Decision::Preempt(found) = decision {
                            let sum: u64 = found
                                .victims
                                .iter()
                                .map(|v| {
                                    v.pods.len() as u64 * u64::try_from(i64::from(v.priority) + (1 << 31)).unwrap()
                                })
                                .sum();
                            assert_eq!(found.cost.priority_sum, sum);
                        }
                        // A preemptor of the lowest possible priority evicts no pod.
                        if own == i32::MIN {
                            assert!(!matches!(
                                plan(&cluster, &for_group("g"), &Context::default()),
                                Decision::Preempt(_)
                            ));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn counts_at_their_limits() {
    for min_count in [1i64, 2, 3, 4, 1 << 20, i64::from(i32::MAX)] {
        for members in [0usize, 1, 3] {
            let mut objects = vec![node("n", 2), pod("low").on("n"), pod("low2").on("n")];
            objects.push(gang("g", 10, 1).set("/spec/schedulingPolicy", json!({"gang": {"minCount": min_count}})));
            for m in 0..members {
                objects.push(pod(&format!("g-{m}")).group("g").priority(10));
            }
            let cluster = cluster(&objects);
            let decision = plan(&cluster, &for_group("g"), &Context::default());
            let expected = if (members as i64) < min_count {
                "WaitingForPods"
            } else if min_count <= 2 {
                "Preempt"
            } else {
                "Unschedulable"
            };
            assert!(format!("{decision:?}").starts_with(expected), "{min_count} {members} {decision:?}");
        }
    }
}

#[test]
fn skews_and_thresholds_at_their_limits() {
    for skew in [1i64, i64::from(i32::MAX)] {
        for domains in [1i64, i64::from(i32::MAX)] {
            for threshold in [i32::MIN, i32::MAX, 2_000_000_000] {
                for allowed in [i32::MIN, -1, 0, i32::MAX] {
                    let mut objects = vec![
                        node("a", 2).label("zone", "a"),
                        node("b", 2).label("zone", "b"),
                        budget("b", "x", allowed),
                    ];
                    for (n, on) in ["a", "a", "b", "b"].iter().enumerate() {
                        objects
                            .push(pod(&format!("low-{n}")).label("app", "x").threshold(threshold).priority(-5).on(on));
                    }
                    objects.push(gang("g", 10, 2));
                    for m in 0..2 {
                        objects.push(pod(&format!("g-{m}")).group("g").priority(10).label("team", "g").set("/spec/topologySpreadConstraints",
                            json!([{"maxSkew": skew, "minDomains": domains, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"team": "g"}}}])));
                    }
                    objects.push(pod("one").priority(10));
                    all(&cluster(&objects), &format!("{skew} {domains} {threshold} {allowed}"));
                }
            }
        }
    }
}
