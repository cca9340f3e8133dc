//! scratch
use p3o::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let make = || p3o_env::tasks::make("PointGoal", &Default::default()).unwrap();
    let spec = make().spec().clone();
    let mut c = Config::preset("quick", "p3o", &spec).unwrap();
    for a in &args[1..] {
        c.set(a).unwrap();
    }
    let n = c.updates();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| {
        let mut l = Learner::new(c, &make).unwrap();
        for u in 0..n {
            let r = l.update().unwrap();
            if u % 10 == 9 {
                println!("{} {:.2} {:.1?}", r.steps, r.ret, r.costs);
            }
        }
        for det in [false, true] {
            let p = l.policy();
            let nm = l.normalizer();
            let mut costs = vec![];
            let mut runs = vec![];
            let mut rets = vec![];
            for i in 0..100u64 {
                let mut lane = p3o_env::Lane::new(make(), 999, i);
                let mut w = p.net.workspace();
                let mut o = vec![0.0; 60];
                let mut out = [0.0; 2];
                let mut a = [0.0; 2];
                let mut run = 0;
                let mut tot = 0;
                for _ in 0..1000 {
                    nm.apply(lane.obs(), &mut o);
                    p.outputs(&mut w, &o, &mut out);
                    if det {
                        p.act_greedily(&out, &mut a)
                    } else {
                        p.act(&out, &mut a, lane.rng());
                    }
                    lane.step(&a);
                    if lane.costs()[0] > 0.0 {
                        run += 1;
                        tot += 1;
                    } else if run > 0 {
                        runs.push(run);
                        run = 0;
                    }
                }
                if run > 0 {
                    runs.push(run);
                }
                costs.push(tot);
                rets.push(lane.finished().ret);
            }
            costs.sort();
            runs.sort();
            println!(
                "det {det} ret {:.2} cost mean {} p10 {} p50 {} p90 {} max {}",
                rets.iter().sum::<f64>() / 100.0,
                costs.iter().sum::<i32>() as f64 / 100.0,
                costs[10],
                costs[50],
                costs[90],
                costs[99]
            );
            println!(
                "runs/episode {} mean len {} p50 {} p90 {} p99 {} max {}",
                runs.len() as f64 / 100.0,
                runs.iter().sum::<i32>() as f64 / runs.len() as f64,
                runs[runs.len() / 2],
                runs[runs.len() * 9 / 10],
                runs[runs.len() * 99 / 100],
                runs[runs.len() - 1]
            );
            println!("log_std {:?}", p.log_std);
        }
    });
}
