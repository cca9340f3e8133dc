//! The operators that an exported policy is made of, as ONNX defines them, in double precision.

use super::file::{Model, Node};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn new(shape: Vec<usize>, values: Vec<f64>) -> Tensor {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "{shape:?}");
        Tensor { shape, values }
    }

    pub fn of(shape: &[usize], values: &[f32]) -> Tensor {
        Tensor::new(shape.to_vec(), values.iter().map(|x| f64::from(*x)).collect())
    }

    fn map(&self, f: impl Fn(f64) -> f64) -> Tensor {
        Tensor::new(self.shape.clone(), self.values.iter().map(|x| f(*x)).collect())
    }

    fn width(&self) -> usize {
        *self.shape.last().unwrap()
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.width())
    }

    /// The same leading axes with rows of another width.
    fn with_rows(&self, width: usize, values: Vec<f64>) -> Tensor {
        let leading = &self.shape[..self.shape.len() - 1];
        Tensor::new(leading.iter().copied().chain([width]).collect(), values)
    }

    /// Outer size, length of the axis, inner size.
    fn around(&self, axis: usize) -> [usize; 3] {
        [self.shape[..axis].iter().product(), self.shape[axis], self.shape[axis + 1..].iter().product()]
    }
}

/// All outputs of the model by name.
pub fn run(model: &Model, inputs: &[(&str, Tensor)]) -> BTreeMap<String, Tensor> {
    let mut values = model.constants.clone();
    let names: Vec<&str> = model.inputs.iter().map(|value| value.name.as_str()).collect();
    assert_eq!(inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    values.extend(inputs.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())));
    for node in &model.nodes {
        let given = node.inputs.iter().map(|name| values.get(name).unwrap_or_else(|| panic!("no value {name} yet")));
        let made = apply(node, &given.collect::<Vec<_>>());
        assert_eq!(made.len(), node.outputs.len(), "{}", node.operator);
        for (name, tensor) in node.outputs.iter().zip(made) {
            assert!(values.insert(name.clone(), tensor).is_none(), "{name} is made twice");
        }
    }
    model.outputs.iter().map(|value| (value.name.clone(), values[&value.name].clone())).collect()
}

fn apply(node: &Node, x: &[&Tensor]) -> Vec<Tensor> {
    let axis = || {
        let axis = node.attributes["axis"] as i64;
        if axis < 0 { (axis + x[0].shape.len() as i64) as usize } else { axis as usize }
    };
    match node.operator.as_str() {
        "Add" => vec![both(x, |a, b| a + b)],
        "Sub" => vec![both(x, |a, b| a - b)],
        "Mul" => vec![both(x, |a, b| a * b)],
        "Tanh" => vec![x[0].map(f64::tanh)],
        "Relu" => vec![x[0].map(|a| a.max(0.0))],
        "Sigmoid" => vec![x[0].map(|a| 1.0 / (1.0 + (-a).exp()))],
        "Clip" => {
            assert_eq!([&x[1].shape, &x[2].shape], [&[0usize; 0]; 2]);
            vec![x[0].map(|a| a.clamp(x[1].values[0], x[2].values[0]))]
        }
        "MatMul" => vec![product(x[0], x[1])],
        "LayerNormalization" => {
            assert_eq!(axis(), x[0].shape.len() - 1);
            vec![layer_norm(x, node.attributes["epsilon"])]
        }
        "ArgMax" => {
            assert_eq!(axis(), x[0].shape.len() - 1);
            let first = |row: &[f64]| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
            vec![x[0].with_rows(1, x[0].rows().map(|row| first(row) as f64).collect())]
        }
        "Split" => split(x[0], &x[1].values, axis()),
        "Concat" => vec![concat(x, axis())],
        "Gather" => vec![gather(x[0], x[1], axis())],
        "Unsqueeze" => {
            let mut shape = x[0].shape.clone();
            shape.insert(x[1].values[0] as usize, 1);
            vec![Tensor::new(shape, x[0].values.clone())]
        }
        other => panic!("no operator {other}"),
    }
}

/// The second operand is as wide as a row of the first, or of its shape.
fn both(x: &[&Tensor], f: impl Fn(f64, f64) -> f64) -> Tensor {
    let (a, b) = (x[0], x[1]);
    assert!(a.shape == b.shape || b.shape == [a.width()], "{:?} and {:?}", a.shape, b.shape);
    let values = a.values.iter().zip(b.values.iter().cycle()).map(|(a, b)| f(*a, *b));
    Tensor::new(a.shape.clone(), values.collect())
}

fn product(x: &Tensor, weights: &Tensor) -> Tensor {
    let [inputs, outputs] = weights.shape[..] else { panic!("weights of shape {:?}", weights.shape) };
    assert_eq!(x.width(), inputs);
    let of_row = |row: &[f64]| -> Vec<f64> {
        (0..outputs).map(|o| row.iter().enumerate().map(|(i, x)| x * weights.values[i * outputs + o]).sum()).collect()
    };
    x.with_rows(outputs, x.rows().flat_map(of_row).collect())
}

fn layer_norm(x: &[&Tensor], epsilon: f64) -> Tensor {
    let (gain, bias, n) = (&x[1].values, &x[2].values, x[0].width() as f64);
    let of_row = |row: &[f64]| -> Vec<f64> {
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let scale = 1.0 / (variance + epsilon).sqrt();
        row.iter().zip(gain.iter().zip(bias)).map(|(x, (gain, bias))| gain * (x - mean) * scale + bias).collect()
    };
    Tensor::new(x[0].shape.clone(), x[0].rows().flat_map(of_row).collect())
}

fn split(x: &Tensor, sizes: &[f64], axis: usize) -> Vec<Tensor> {
    let [outer, length, inner] = x.around(axis);
    assert_eq!(sizes.iter().sum::<f64>() as usize, length);
    let mut first = 0;
    let part = |size: &f64| {
        let (size, from) = (*size as usize, first);
        first += size;
        let rows = (0..outer).flat_map(|o| &x.values[(o * length + from) * inner..][..size * inner]);
        let mut shape = x.shape.clone();
        shape[axis] = size;
        Tensor::new(shape, rows.copied().collect())
    };
    sizes.iter().map(part).collect()
}

fn concat(x: &[&Tensor], axis: usize) -> Tensor {
    let outer = x[0].around(axis)[0];
    let part = |o: usize| x.iter().flat_map(move |x| x.values.chunks_exact(x.values.len() / outer).nth(o).unwrap());
    let mut shape = x[0].shape.clone();
    shape[axis] = x.iter().map(|x| x.shape[axis]).sum();
    Tensor::new(shape, (0..outer).flat_map(part).copied().collect())
}

/// With a single number as index, which removes the axis.
fn gather(x: &Tensor, index: &Tensor, axis: usize) -> Tensor {
    assert_eq!(index.shape, [0usize; 0]);
    let [outer, length, inner] = x.around(axis);
    let at = index.values[0] as usize;
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let rows = (0..outer).flat_map(|o| &x.values[(o * length + at) * inner..][..inner]);
    Tensor::new(shape, rows.copied().collect())
}
