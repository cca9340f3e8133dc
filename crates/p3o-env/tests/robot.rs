//! The Point robot drives as the original does, including its oddities.

use p3o_env::physics::point::{self, PointState, SUBSTEP, SUBSTEPS};

use crate::util::Noise;

/// The equations in the world frame as they are written down: a 3x3 solve by Cramer's rule and fresh cosines.
fn textbook_step(s: &mut PointState, action: [f64; 2]) {
    const MASS: f64 = 0.005188790204786391;
    const AHEAD: f64 = 0.01927231513576232;
    const INERTIA: f64 = 2.8421827485812244e-05;
    const DAMPING: [f64; 3] = [0.01, 0.01, 0.005];
    let control = action.map(|a| a.clamp(-1.0, 1.0));
    for _ in 0..SUBSTEPS {
        let (sin, cos) = (libm::sin(s.theta), libm::cos(s.theta));
        let k = MASS * AHEAD;
        let drive = 0.3 * control[0].clamp(-0.05, 0.05);
        let servo = 0.3 * (control[1] - 0.3 * s.omega).clamp(-0.05, 0.05);
        let f = [
            drive * cos + k * cos * s.omega * s.omega - DAMPING[0] * s.vx,
            drive * sin + k * sin * s.omega * s.omega - DAMPING[1] * s.vy,
            servo - DAMPING[2] * s.omega,
        ];
        let mut m = [[MASS, 0.0, -k * sin], [0.0, MASS, k * cos], [-k * sin, k * cos, INERTIA]];
        for (i, row) in m.iter_mut().enumerate() {
            row[i] += SUBSTEP * DAMPING[i];
        }
        let det = determinant(&m);
        let [ax, ay, turn] = std::array::from_fn(|column| {
            let mut replaced = m;
            for (row, value) in replaced.iter_mut().zip(f) {
                row[column] = value;
            }
            determinant(&replaced) / det
        });
        s.vx += SUBSTEP * ax;
        s.vy += SUBSTEP * ay;
        s.omega += SUBSTEP * turn;
        s.x += SUBSTEP * s.vx;
        s.y += SUBSTEP * s.vy;
        s.theta += SUBSTEP * s.omega;
    }
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
}

#[test]
fn the_fast_step_is_the_textbook_step() {
    let mut noise = Noise::new(3);
    let mut robot = PointState { theta: 0.4, ..PointState::default() };
    let (mut place, mut speed, mut turn) = (0.0f64, 0.0f64, 0.0f64);
    for _ in 0..50_000 {
        let action = noise.action().map(f64::from);
        let mut expected = robot;
        textbook_step(&mut expected, action);
        point::step(&mut robot, action, &[]);
        place = place.max((robot.x - expected.x).abs()).max((robot.y - expected.y).abs());
        speed = speed.max((robot.vx - expected.vx).abs()).max((robot.vy - expected.vy).abs());
        turn = turn.max((robot.omega - expected.omega).abs());
    }
    // The servo multiplies a rounding error by up to 3.9 in each of ten substeps, so 1e-16 may become 1e-10; three million
    // steps gave at most 1.4e-14, 8.4e-13 and 4.4e-11.
    assert!(place < 1e-13 && speed < 5e-12 && turn < 2e-10, "{place:.1e} {speed:.1e} {turn:.1e}");
}

#[test]
fn the_drive_saturates_at_a_twentieth() {
    let run = |drive: f64| {
        let mut robot = PointState::default();
        for _ in 0..300 {
            point::step(&mut robot, [drive, -1.0], &[]);
        }
        robot
    };
    assert_eq!(run(1.0), run(0.05));
    assert_eq!(run(7.0), run(0.05));
    assert_ne!(run(0.049), run(0.05));
}

#[test]
fn top_speed_is_one_and_a_half_metres_per_second() {
    let mut robot = PointState::default();
    for _ in 0..500 {
        point::step(&mut robot, [1.0, 0.0], &[]);
    }
    // F / b = 0.3 * 0.05 / 0.01; what the chatter turns sideways is lost.
    let speed = robot.vx.hypot(robot.vy);
    assert!((1.3..1.55).contains(&speed), "{speed}");
}

#[test]
fn the_turn_servo_chatters() {
    let mut robot = PointState::default();
    let mut rates = Vec::new();
    for i in 0..2000 {
        let reading = point::step(&mut robot, [0.0, 0.3], &[]);
        if i >= 100 {
            rates.push(reading.sensors()[8]);
        }
    }
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let deviation = (rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n).sqrt();
    // A smooth servo would settle where 0.09 (1 - w) = 0.005 w, at 0.947 rad/s with no deviation at all; the textbook
    // equations give a mean of 0.79 and a deviation of 0.43.
    assert!((0.7..0.9).contains(&mean), "{mean}");
    assert!((0.35..0.5).contains(&deviation), "{deviation}");
}

#[test]
fn a_pillar_stops_the_robot() {
    let mut robot = PointState::default();
    let pillars = [[1.0, 0.0]];
    let mut touched = false;
    for _ in 0..300 {
        let reading = point::step(&mut robot, [1.0, 0.0], &pillars);
        touched |= reading.touching;
        let centre = (robot.x - 1.0).hypot(robot.y);
        assert!(centre > 0.28, "the robot is {centre} from the pillar's centre");
    }
    assert!(touched);
}

#[test]
fn a_pillar_out_of_reach_changes_no_bit() {
    let mut noise = Noise::new(5);
    let (mut alone, mut with_pillar) = (PointState::default(), PointState::default());
    for _ in 0..2000 {
        let action = noise.action().map(f64::from);
        let away = [with_pillar.x + 0.3, with_pillar.y + 0.3];
        let first = point::step(&mut alone, action, &[]);
        let second = point::step(&mut with_pillar, action, &[away]);
        assert_eq!((alone, first), (with_pillar, second));
    }
}

#[test]
fn the_robot_at_rest_feels_gravity_alone() {
    let robot = PointState { theta: 2.0, ..PointState::default() };
    let sensors = point::read(&robot, [0.0, 0.0], &[]).sensors();
    assert_eq!(sensors[..9], [0.0, 0.0, 9.81, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert!((sensors[9] + 0.5 * libm::sin(2.0)).abs() < 1e-15);
    assert!((sensors[10] + 0.5 * libm::cos(2.0)).abs() < 1e-15);
}
